"""A damaged message is never handed out, is moved aside by name, and is in nobody's way."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from dray.errors import ReceiveTimeout, StoreCorrupt
from dray.manager.change.quarantine import QUARANTINE_NAME, damaged_messages
from dray.manager.entries import unpack
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.offline.backup import back_up_stopped
from dray.offline.checking import check_store
from dray.offline.restoring import restore
from dray.store.kinds import file_name
from dray.wire import frames, large_frames, message_frames, peer_frames
from dray.wire.range_frames import ReadRange
from tests.inspection import look_into
from tests.unit.manager import conftest
from tests.unit.manager.conftest import LOG_BYTES, Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair
from tests.unit.manager.requests.test_large_messages import send_large, take_large

SMALL = b"x" * 100


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    """A client of a manager whose heap files are large enough for large records."""
    return ManagerDriver(tmp_path / "data").session()


def damage(driver: ManagerDriver, queue: str, at: int) -> str:
    """Flip a bit of a message's body on the disk; the name of its heap file."""
    entry = unpack(look_into(driver.manager).state.queues.named(queue).index.everything()[at])
    name = f"p{entry.file:07d}.mq"
    with (driver.path / "storage" / name).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"y")
    return name


def test_a_damaged_message_is_refused_with_its_file_and_the_next_one_comes(caller: Caller):
    driver, queue = caller.driver, caller.create("orders")
    caller.send(queue, *(Message(body=SMALL + b"%d" % n) for n in range(3)))
    name = damage(driver, "orders", 1)
    assert caller.receive(queue, max_messages=1)[1] == [SMALL + b"0"]
    with pytest.raises(StoreCorrupt, match=f"position 2 of queue 'orders' is damaged in {name}"):
        caller.receive(queue, max_messages=1)
    assert caller.receive(queue)[1] == [SMALL + b"2"]
    (notice,) = driver.manager.notices()
    assert name in str(notice)


def test_a_damaged_newest_message_is_named_when_its_killed_manager_starts_again(caller: Caller):
    driver, queue = caller.driver, caller.create("orders")
    caller.send(queue, Message(body=SMALL))
    caller.send(queue, Message(body=SMALL), Message(body=b"newest" * 6_000))
    name = damage(driver, "orders", 2)
    driver.crash()
    first, second = map(str, driver.manager.notices())
    assert first.startswith(f"storage: event 2083: 1 message of the newest in {name} went bad")
    assert second.startswith(f"orders: event 2083: the message at position 3 is damaged in {name}")
    assert "moved to system$;quarantine" not in second
    again = driver.session()
    assert again.receive(again.open("orders"), max_messages=2)[1] == [SMALL, SMALL]
    with pytest.raises(StoreCorrupt, match="position 3 of queue 'orders' is damaged"):
        again.receive(again.open("orders"))
    assert look_into(again.driver.manager).state.queues.named(QUARANTINE_NAME).index.everything()


def test_of_very_many_damaged_messages_a_start_names_some(caller: Caller, monkeypatch):
    driver = caller.driver
    monkeypatch.setattr("dray.manager.change.quarantine.DAMAGED_NAMED_MAX", 3)
    for name in ("first", "second", "third"):
        caller.send(caller.create(name), Message(body=SMALL), Message(body=SMALL))
    state = look_into(driver.manager).state
    named = damaged_messages(state, [extent for extent, _ in state.live()])
    assert [queue for queue, _ in named] == ["first", "first", "second"]


def test_those_around_it_stay_where_they_are(caller: Caller):
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=SMALL + b"%d" % n) for n in range(5)))
    damage(caller.driver, "orders", 2)
    with pytest.raises(StoreCorrupt):
        caller.receive(queue)
    assert caller.receive(queue)[1] == [SMALL + b"%d" % n for n in (0, 1, 3, 4)]


@pytest.mark.parametrize("peek", [False, True])
def test_a_transaction_does_not_get_it_either(caller: Caller, peek: bool):
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=SMALL))
    damage(caller.driver, "orders", 0)
    with pytest.raises(StoreCorrupt):
        caller.receive(queue, transaction=0 if peek else transaction, peek=peek)
    with pytest.raises(ReceiveTimeout):
        caller.receive(queue)


def test_other_queues_know_nothing_of_it(caller: Caller):
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, Message(body=SMALL))
    caller.send(other, Message(body=SMALL))
    damage(caller.driver, "orders", 0)
    with pytest.raises(StoreCorrupt):
        caller.receive(queue)
    assert caller.receive(other)[1] == [SMALL]


def test_it_is_kept_in_quarantine_over_a_restart_with_its_bytes(caller: Caller):
    driver, queue = caller.driver, caller.create("orders")
    (number,) = caller.send(queue, Message(body=SMALL))
    damage(driver, "orders", 0)
    with pytest.raises(StoreCorrupt):
        caller.receive(queue)
    driver.crash()
    again = driver.session()
    aside = look_into(driver.manager).state.queues.named(QUARANTINE_NAME)
    (entry,) = map(unpack, aside.index.everything())
    assert entry.number == number
    assert driver.store.read(entry.extent)[-1:] == b"y"
    with pytest.raises(ReceiveTimeout):
        again.receive(again.open("orders"))


def test_a_quarantined_message_spoils_neither_check_nor_backup(caller: Caller, tmp_path: Path):
    driver, queue = caller.driver, caller.create("orders")
    caller.send(queue, Message(body=SMALL), Message(body=b"whole"))
    damage(driver, "orders", 0)
    with pytest.raises(StoreCorrupt):
        caller.receive(queue)
    driver.store.close(driver.manager.snapshot())
    report = check_store(driver.path)
    assert report.clean
    assert any(each.what.startswith("in quarantine") for each in report.findings)
    out = io.BytesIO()
    back_up_stopped(driver.path, out.write, lambda *_: None, now=driver.now, version="1")
    path = tmp_path / "restored"
    restore(io.BytesIO(out.getvalue()), path, now=driver.now + 9, log_bytes=LOG_BYTES)
    asks = ManagerDriver(path).session()
    assert asks.receive(asks.open("orders"))[1] == [b"whole"]


def test_a_damaged_message_does_not_stop_the_delivery_of_others(tmp_path: Path):
    """The peer refuses it and ends the connection; on the next one it is looked for first."""
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    client = pair.source.session()
    queue = client.open(ADDRESS)
    client.send(queue, *(Message(body=SMALL + b"%d" % n) for n in range(3)))
    damage(pair.source, ADDRESS, 1)
    for _ in range(4):
        pair.deliver()
        pair.source.advance(40.0)
    receiver = pair.destination.session()
    found = receiver.receive(receiver.open("orders"))[1]
    assert found == [SMALL + b"0", SMALL + b"2"]
    aside = look_into(pair.source.manager).state.queues.named(QUARANTINE_NAME)
    assert len(aside.index) == 1


def test_a_short_run_is_looked_at_though_a_long_one_goes_from_the_file_to_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conftest, "HEAP_FILE_BYTES", 1 << 20)
    caller = ManagerDriver(tmp_path / "data").session()
    queue, other = caller.create("orders"), caller.create("other")
    for message in (Message(body=bytes(100_000)), Message(body=SMALL)):
        caller.send(queue, message)
        caller.send(other, Message(body=SMALL))
    read = ReadRange(queue, 0, 0, max_messages=9, max_bytes=0)
    assert caller.call_whole(read)[1].endswith(SMALL)
    damage(caller.driver, "orders", 1)
    with pytest.raises(StoreCorrupt, match="position 2 of queue 'orders' is damaged"):
        caller.call_whole(read)
    assert not caller.call_whole(read)[1].endswith(SMALL)


def test_a_long_message_that_was_given_back_is_looked_at_before_it_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Long bodies go from the disk to the connection, and the receiver checks them."""
    monkeypatch.setattr(conftest, "HEAP_FILE_BYTES", 1 << 20)
    driver = ManagerDriver(tmp_path / "data")
    caller = driver.session()
    queue = caller.create("orders")
    bodies = [b"a" * 300_000, b"b" * 300_000, b"c"]
    for body in bodies:
        caller.send(queue, Message(body=body))
    damage(driver, "orders", 1)
    receive = message_frames.Receive(queue, caller.number_for(), 0.0, max_messages=3)
    head, _ = caller.call_whole(receive)
    assert len(head.envelopes) == 3, "nobody has read them here"
    caller.call(message_frames.Abort(receive.transaction))
    with pytest.raises(StoreCorrupt, match="moved to"):
        caller.receive(queue)
    assert caller.receive(queue)[1] == [bodies[0], bodies[2]]
    assert len(look_into(driver.manager).state.queues.named(QUARANTINE_NAME).index) == 1


@pytest.mark.parametrize(("dead_letter", "remote"), [(True, True), (False, True), (True, False)])
def test_the_source_of_a_damaged_part_is_told_if_it_keeps_its_dead_letters(
    tmp_path: Path, dead_letter: bool, remote: bool
):
    pair = Pair(tmp_path)
    there = pair.destination.session()
    queue = there.create("orders")
    client = pair.source.session() if remote else there
    sending = client.number_for()
    to = client.open(ADDRESS if remote else "orders")
    send_large(client, to, 2, sending, use_dead_letter_queue=dead_letter)
    client.commit(sending, 3)
    pair.deliver()
    found = take_large(there, queue, there.number_for())
    part = found.parts[0].lookup_id
    entry = look_into(pair.destination.manager).state.queues.numbered(queue).index.held(part)[0]
    with (pair.destination.path / "storage" / file_name(unpack(entry).file)).open("r+b") as file:
        file.seek(unpack(entry).offset + unpack(entry).length - 1)
        file.write(b"?")
    assert there.call(large_frames.PartDamaged(queue, part)) == frames.Done(1)
    pair.deliver()
    said = [each for each in pair.said if isinstance(each, peer_frames.Confirmations)]
    told = [each.message_class for head in said for each in head.confirmations]
    assert told.count(MessageClass.NACK_RECEIVE_REJECTED) == (dead_letter and remote)
    aside = look_into(pair.destination.manager).state.queues.named(QUARANTINE_NAME).index
    assert (len(aside), aside.part_count) == (1, 0), "it is part of nothing any more"


@pytest.mark.parametrize("is_damaged", [True, False])
def test_of_large_bodies_only_those_that_came_back_are_checked_before_they_go_out(
    caller: Caller, is_damaged: bool
):
    driver, queue = caller.driver, caller.create("orders")
    caller.send(queue, *(Message(body=bytes([n]) * 15_000) for n in range(3)))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction, max_messages=1)
    caller.call(message_frames.Abort(transaction))
    if not is_damaged:
        assert [body[:1] for body in caller.receive(queue)[1]] == [b"\0", b"\1", b"\2"]
        return
    damage(driver, "orders", 0)
    driver.leave_unchecked()
    with pytest.raises(StoreCorrupt, match="position 1 of queue 'orders' is damaged"):
        caller.receive(queue)
    assert [body[:1] for body in caller.receive(queue)[1]] == [b"\1", b"\2"]
