"""Small messages that a journal or a dead-letter queue keeps go to journal files at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import StoreFull
from dray.manager.change.departures import REWRITTEN_BYTES_MAX
from dray.manager.entries import unpack
from dray.manager.events import Request
from dray.model.message import Message
from dray.store.kinds import Kind, file_name, kind_of
from dray.wire import message_frames, queue_frames
from dray.wire.record import HEADER_BYTES
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

JOURNAL = "orders;journal"


def kinds(driver: ManagerDriver, queue: str = JOURNAL) -> list[Kind]:
    index = look_into(driver.manager).state.queues.named(queue).index
    return [kind_of(unpack(packed).file) for packed in index.everything()]


def sent(driver: ManagerDriver, *bodies: bytes) -> int:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    for body in bodies:
        caller.send(queue, Message(body=body))
    return queue


def received(driver: ManagerDriver, queue: int) -> list[bytes]:
    return driver.session().receive(queue)[1]


def kept(driver: ManagerDriver) -> list[bytes]:
    caller = driver.session()
    return caller.receive(caller.open(JOURNAL))[1]


def names(driver: ManagerDriver) -> set[str]:
    return {path.name for path in (driver.path / "storage").iterdir()}


def test_what_is_received_is_in_a_journal_file_before_anything_else_happens(
    driver: ManagerDriver,
) -> None:
    queue = sent(driver, b"one", b"two")
    assert "j0000001.mq" not in names(driver)
    assert received(driver, queue) == [b"one", b"two"]
    assert kinds(driver) == [Kind.JOURNAL] * 2
    assert "j0000001.mq" in names(driver)
    assert driver.store.live_bytes == 2 * (HEADER_BYTES + 3)
    assert kept(driver) == [b"one", b"two"]
    assert driver.store.live_bytes == 0


def test_so_is_a_dead_letter(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"late", use_dead_letter_queue=True))
    caller.call(queue_frames.PurgeQueue(queue))
    assert kinds(driver, "system$;deadxact") == [Kind.JOURNAL]
    assert caller.receive(caller.open("system$;deadxact"))[1] == [b"late"]


def test_it_is_there_after_a_crash_as_it_was(driver: ManagerDriver) -> None:
    received(driver, sent(driver, b"one", b"two"))
    driver.crash()
    assert kinds(driver) == [Kind.JOURNAL] * 2
    assert kept(driver) == [b"one", b"two"]
    driver.crash()
    assert driver.store.live_bytes == 0


def test_a_receive_that_a_crash_takes_back_leaves_the_messages_where_they_were(
    driver: ManagerDriver,
) -> None:
    queue = sent(driver, b"one")
    before = driver.store.live_bytes
    asked = message_frames.Receive(queue, transaction=0, timeout=0.0, max_messages=100)
    session = driver.session().number
    driver.turn(Request(session, Frame(asked, 1, memoryview(b""))), sync=False)
    assert kinds(driver) == [Kind.JOURNAL]
    driver.crash()
    assert (kinds(driver, "orders"), kinds(driver)) == ([Kind.RECOVERABLE], [])
    assert driver.store.live_bytes == before
    assert received(driver, queue) == [b"one"]


def test_of_one_fact_no_more_than_its_share_is_written_at_once(driver: ManagerDriver) -> None:
    long = REWRITTEN_BYTES_MAX // 4 - HEADER_BYTES
    bodies = [b"1" * long, b"2" * long, b"3" * long, b"4" * (long + 1), b"5" * long, b"small"]
    received(driver, sent(driver, *bodies))
    moved, stays = Kind.JOURNAL, Kind.RECOVERABLE
    assert kinds(driver) == [moved, moved, moved, stays, moved, stays]
    assert kept(driver) == bodies


def test_a_disk_without_room_to_spare_keeps_them_where_they_lie(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path)
    queue = sent(driver, b"one")
    look_into(driver.manager).room.low_water = 1 << 62
    assert received(driver, queue) == [b"one"]
    assert kinds(driver) == [Kind.RECOVERABLE]
    assert kept(driver) == [b"one"]


def test_a_disk_that_is_full_keeps_them_where_they_lie(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = sent(driver, b"one")

    def full(*_: object) -> None:
        raise StoreFull("the disk is full", file="j0000001.mq")

    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "place", full)
        assert received(driver, queue) == [b"one"]
    assert kinds(driver) == [Kind.RECOVERABLE]
    assert driver.session().call(queue_frames.DescribeQueue("orders")).info.copies_skipped == 0
    assert kept(driver) == [b"one"]


def test_a_damaged_message_is_kept_as_it_is(driver: ManagerDriver) -> None:
    """One that goes without being read: nobody has told of it yet."""
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"late", use_dead_letter_queue=True))
    entry = unpack(look_into(driver.manager).state.queues.named("orders").index.everything()[0])
    with (driver.path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    caller.call(queue_frames.PurgeQueue(queue))
    assert kinds(driver, "system$;deadxact") == [Kind.RECOVERABLE]
