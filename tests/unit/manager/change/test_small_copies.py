"""Small messages that a journal or a dead-letter queue keeps go to journal files at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import StoreFull
from dray.manager.change.departures import REWRITTEN_BYTES_MAX
from dray.manager.events import Request
from dray.manager.queue.index import unpack
from dray.model.message import Message
from dray.store.kinds import Kind, file_name, kind_of
from dray.testing.inspection import look_into
from dray.wire import frames
from dray.wire.record import HEADER_BYTES
from dray.wire.stream import Frame
from tests.unit.manager.conftest import Desk

JOURNAL = "orders;journal"


def kinds(desk: Desk, queue: str = JOURNAL) -> list[Kind]:
    index = look_into(desk.manager).state.queues.named(queue).index
    return [kind_of(unpack(packed).file) for packed in index.everything()]


def sent(desk: Desk, *bodies: bytes) -> int:
    caller = desk.session()
    queue = caller.create("orders", journal=True)
    for body in bodies:
        caller.send(queue, Message(body=body))
    return queue


def received(desk: Desk, queue: int) -> list[bytes]:
    return desk.session().receive(queue)[1]


def kept(desk: Desk) -> list[bytes]:
    caller = desk.session()
    return caller.receive(caller.open(JOURNAL))[1]


def names(desk: Desk) -> set[str]:
    return {path.name for path in (desk.path / "storage").iterdir()}


def test_what_is_received_is_in_a_journal_file_before_anything_else_happens(desk: Desk) -> None:
    queue = sent(desk, b"one", b"two")
    assert "j0000001.mq" not in names(desk)
    assert received(desk, queue) == [b"one", b"two"]
    assert kinds(desk) == [Kind.JOURNAL] * 2
    assert "j0000001.mq" in names(desk)
    assert desk.store.live_bytes == 2 * (HEADER_BYTES + 3)
    assert kept(desk) == [b"one", b"two"]
    assert desk.store.live_bytes == 0


def test_so_is_a_dead_letter(desk: Desk) -> None:
    caller = desk.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"late", use_dead_letter_queue=True))
    caller.call(frames.PurgeQueue(queue))
    assert kinds(desk, "system$;deadxact") == [Kind.JOURNAL]
    assert caller.receive(caller.open("system$;deadxact"))[1] == [b"late"]


def test_it_is_there_after_a_crash_as_it_was(desk: Desk) -> None:
    received(desk, sent(desk, b"one", b"two"))
    desk.crash()
    assert kinds(desk) == [Kind.JOURNAL] * 2
    assert kept(desk) == [b"one", b"two"]
    desk.crash()
    assert desk.store.live_bytes == 0


def test_a_receive_that_a_crash_takes_back_leaves_the_messages_where_they_were(desk: Desk) -> None:
    queue = sent(desk, b"one")
    before = desk.store.live_bytes
    asked = frames.Receive(queue, transaction=0, timeout=0.0, max_messages=100)
    session = desk.session().number
    desk.turn(Request(session, Frame(asked, 1, memoryview(b""))), sync=False)
    assert kinds(desk) == [Kind.JOURNAL]
    desk.crash()
    assert (kinds(desk, "orders"), kinds(desk)) == ([Kind.RECOVERABLE], [])
    assert desk.store.live_bytes == before
    assert received(desk, queue) == [b"one"]


def test_of_one_fact_no_more_than_its_share_is_written_at_once(desk: Desk) -> None:
    size = REWRITTEN_BYTES_MAX // 4
    queue = sent(desk, *[bytes([each]) * size for each in range(5)], b"small")
    received(desk, queue)
    assert kinds(desk) == [*[Kind.JOURNAL] * 3, Kind.RECOVERABLE, Kind.RECOVERABLE, Kind.JOURNAL]
    assert kept(desk) == [*[bytes([each]) * size for each in range(5)], b"small"]


def test_a_disk_without_room_to_spare_keeps_them_where_they_lie(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    queue = sent(desk, b"one")
    look_into(desk.manager).disk_room.low_water = 1 << 62
    assert received(desk, queue) == [b"one"]
    assert kinds(desk) == [Kind.RECOVERABLE]
    assert kept(desk) == [b"one"]


def test_a_disk_that_is_full_keeps_them_where_they_lie(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = sent(desk, b"one")

    def full(*_: object) -> None:
        raise StoreFull("the disk is full", file="j0000001.mq")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "place", full)
        assert received(desk, queue) == [b"one"]
    assert kinds(desk) == [Kind.RECOVERABLE]
    assert desk.session().call(frames.DescribeQueue("orders")).info.copies_skipped == 0
    assert kept(desk) == [b"one"]


def test_a_damaged_message_is_kept_as_it_is(desk: Desk) -> None:
    """One that goes without being read: nobody has told of it yet."""
    caller = desk.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"late", use_dead_letter_queue=True))
    entry = unpack(look_into(desk.manager).state.queues.named("orders").index.everything()[0])
    with (desk.path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    caller.call(frames.PurgeQueue(queue))
    assert kinds(desk, "system$;deadxact") == [Kind.RECOVERABLE]
