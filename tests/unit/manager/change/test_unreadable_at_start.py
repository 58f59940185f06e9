"""Messages whose records cannot be read at the start are kept, by name, out of everyone's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import ReceiveTimeout
from dray.manager.entries import unpack
from dray.model.message import Message
from dray.store.kinds import file_name
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


def send(caller: Caller, number: int, body: bytes) -> None:
    caller.send(number, Message(body=body))


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


def test_one_for_another_manager_stays_while_what_is_behind_it_is_delivered(tmp_path):
    """It is not called delivered, not by the next start either."""
    net = Net(tmp_path, "ac")
    net["c"].session().create("orders")
    there = address("c", "orders")
    net.block("a", "c")
    caller = net["a"].session()
    for nth in range(3):
        send(caller, caller.open(there), bytes([nth]) * SIZE)
    send(caller, caller.create("here"), b"in a file that is there")
    outgoing = next(each.name for each in look_into(net["a"].manager).state.queues if each.outgoing)
    lose(net["a"], outgoing, 1)
    net["a"].start()
    net.unblock("a", "c")
    net.advance(31.0)
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
