"""Messages whose records cannot be read at the start are kept, by name, out of everyone's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import AccessDenied, ReceiveTimeout
from dray.manager.entries import unpack
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.store.kinds import file_name
from dray.wire.queue_frames import DeleteQueue, PurgeQueue
from dray.wire.range_frames import MeasureRange
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import Net, address

SIZE = 40_000


def place_of(driver: ManagerDriver, queue: str, nth: int) -> tuple[Path, int]:
    packed = look_into(driver.manager).state.queues.named(queue).index.everything()[nth]
    entry = unpack(packed)
    return driver.path / "storage" / file_name(entry.file), entry.offset


def lose(driver: ManagerDriver, queue: str, nth: int) -> tuple[Path, bytes]:
    file, _ = place_of(driver, queue, nth)
    image = file.read_bytes()
    driver.store.close(driver.manager.snapshot())
    file.unlink()
    return file, image


@pytest.fixture
def filled(driver: ManagerDriver) -> ManagerDriver:
    caller = driver.session()
    number = caller.create("orders")
    for nth in range(4):
        send(caller, number, bytes([nth]) * SIZE)
    return driver


def send(caller: Caller, number: int, body: bytes, **more: object) -> None:
    caller.send(number, Message(body=body, **more))


def bodies(driver: ManagerDriver, count: int) -> list[int]:
    caller = driver.session()
    number = caller.open("orders")
    return [caller.receive(number, max_messages=1)[1][0][0] for _ in range(count)]


def info(driver: ManagerDriver):
    return look_into(driver.manager).state.queues.named("orders").info()


def test_the_rest_of_the_queue_is_received_and_the_loss_is_told(filled):
    filled.leave_unchecked()
    file, _ = lose(filled, "orders", 1)
    filled.start()
    (notice,) = [each for each in filled.manager.notices() if "2083" in str(each)]
    assert file.name in str(notice)
    assert info(filled).message_count == 4
    assert info(filled).byte_count > 4 * SIZE
    reader = filled.session()
    measured = reader.call(MeasureRange(reader.open("orders"), 0))
    assert measured.plain == 3, "of those that can be read"
    assert bodies(filled, 3) == [0, 2, 3]
    caller = filled.session()
    number = caller.open("orders")
    with pytest.raises(ReceiveTimeout):
        caller.receive(number)
    assert info(filled).message_count == 1


def test_it_survives_restarts_and_is_received_once_its_file_is_back(filled):
    file, image = lose(filled, "orders", 1)
    filled.start()
    filled.crash()
    assert bodies(filled, 1) == [0]
    filled.store.close(filled.manager.snapshot())
    file.write_bytes(image)
    filled.start()
    assert bodies(filled, 3) == [1, 2, 3]
    assert not any("2083" in str(each) for each in filled.manager.notices())


def passed_one_that_is_lost(tmp_path):
    """Three messages for another manager, the second lost; its stream has passed it."""
    net = Net(tmp_path, "ac")
    net["c"].session().create("orders")
    net.block("a", "c")
    caller, there = net["a"].session(), address("c", "orders")
    for nth in range(3):
        send(caller, caller.open(there), bytes([nth]) * SIZE)
    send(caller, caller.create("here"), b"in a file that is there")
    outgoing = next(each.name for each in look_into(net["a"].manager).state.queues if each.outgoing)
    lose(net["a"], outgoing, 1)
    net["a"].start()
    net.unblock("a", "c")
    net.advance(31.0)
    return net, there, outgoing


def test_one_for_another_manager_stays_while_what_is_behind_it_is_delivered(tmp_path):
    """It is not called delivered, not by the next start either."""
    net, there, outgoing = passed_one_that_is_lost(tmp_path)
    assert bodies(net["c"], 2) == [0, 2]
    for _ in range(3):
        kept = look_into(net["a"].manager).state.queues.named(outgoing).index
        (entry,) = map(unpack, kept.everything())
        assert (entry.lookup_id, entry.extent.length) == (2, kept.byte_count)
        assert net["a"].store.live_bytes >= SIZE
        net.crash("a")
        net["a"].store.checkpoint(net["a"].manager.snapshot())
        caller = net["a"].session()
        send(caller, caller.open(there), b"behind the checkpoint")
        net.advance(31.0)


@pytest.mark.parametrize("wish", [None, True])
@pytest.mark.parametrize("frame", ["purge", "delete"])
def test_a_purge_and_a_deletion_take_what_cannot_be_read(tmp_path, frame, wish):
    """A deletion looked for ever for who had asked for a dead letter, and a purge left them."""
    net = Net(tmp_path, "ac")
    there, caller = net["c"].session(), net["a"].session()
    there.create("orders")
    to_there = caller.open(address("c", "orders"))
    for nth in range(3):
        send(caller, to_there, bytes([nth]) * SIZE, use_dead_letter_queue=wish)
    net.deliver()
    own = net["c"].session()
    send(own, own.open("orders"), b"3" * SIZE, use_dead_letter_queue=wish)
    net["c"].leave_unchecked()
    file, image = lose(net["c"], "orders", 1)
    net.cut("a", "c")
    net["c"].start()
    net.advance(31.0)
    caller = net["c"].session()
    if frame == "purge":
        number = caller.open("orders")
        assert caller.call(PurgeQueue(number)).count == 4
        assert info(net["c"]).byte_count == info(net["c"]).unreadable_count == 0
    else:
        caller.call(DeleteQueue("orders"))
    net.advance(2.0)
    ended = "ended-purged" if frame == "purge" else "ended-deleted"
    warned = [each for each in net["a"].manager.notices() if each.kind == ended]
    assert sum(each.times for each in warned) == 3
    why = MessageClass.NACK_Q_PURGED if frame == "purge" else MessageClass.NACK_Q_DELETED
    kept, _ = net["a"].session().what_is_in("system$;deadxact", peek=True)
    assert [each.message_class for each in kept] == [why] * (3 if wish else 0)
    net["c"].store.close(net["c"].manager.snapshot())
    file.write_bytes(image)
    net["c"].start()
    queues = look_into(net["c"].manager).state.queues
    assert sum(len(each.index) for each in queues if each.name == "orders") == 0


def test_a_purge_of_an_outgoing_queue_takes_what_its_stream_has_passed(tmp_path):
    net, there, _ = passed_one_that_is_lost(tmp_path)
    caller = net["a"].session()
    assert caller.call(PurgeQueue(caller.open(there))).count == 1
    assert "ended-in-doubt" in [each.kind for each in net["a"].manager.notices()]
    send(caller, caller.open(there), b"behind")
    net.deliver()
    net.crash("a")
    net.advance(31.0)
    reader = net["c"].session()
    found = reader.receive(reader.open("orders"), max_messages=9)[1]
    assert [each[0] for each in found] == [0, 2, ord("b")]


def test_a_purge_of_the_order_queue_takes_only_what_cannot_be_read(tmp_path):
    """Nothing else ended these messages, so no backup was possible until their file was back."""
    net = Net(tmp_path, "ac")
    there = net["c"].session()
    there.create("orders")
    caller = net["a"].session()
    to_there = caller.open(address("c", "orders"))
    for nth in range(3):
        send(caller, to_there, bytes([nth]) * SIZE, use_dead_letter_queue=True)
    net.deliver()
    net["a"].leave_unchecked()
    lose(net["a"], "order_queue$", 1)
    net.cut("a", "c")
    net["a"].start()
    net.advance(31.0)
    caller = net["a"].session()
    waiting = caller.open("order_queue$")
    assert caller.call(PurgeQueue(waiting)).count == 1
    with pytest.raises(AccessDenied):
        caller.call(PurgeQueue(waiting))
    there = net["c"].session()
    there.call(PurgeQueue(there.open("orders")))
    net.deliver()
    _, kept = net["a"].session().what_is_in("system$;deadxact", peek=True)
    assert [body[0] for body in kept] == [0, 2]
