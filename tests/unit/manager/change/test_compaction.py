"""In quiet moments records move to the heap files in which they belong."""

from __future__ import annotations

import pytest

from dray.errors import StoreFull
from dray.manager.change.compaction import QUIET_S, STEP_FILES
from dray.manager.queue.index import unpack
from dray.model.message import Message
from dray.store.kinds import Kind, kind_of
from dray.testing.inspection import look_into
from tests.unit.manager.conftest import Desk


@pytest.fixture(autouse=True)
def nothing_at_once(monkeypatch):
    """Small copies would go to journal files by themselves; here they stand for longer ones."""
    monkeypatch.setattr("dray.manager.change.departures.REWRITTEN_BYTES_MAX", 0)


def kinds(desk: Desk, queue: str) -> list[Kind]:
    index = look_into(desk.manager).state.queues.named(queue).index
    return [kind_of(unpack(packed).file) for packed in index.everything()]


def journaled(desk: Desk, count: int, size: int = 500) -> None:
    caller = desk.session()
    queue = caller.create("orders", journal=True)
    for nth in range(count):
        caller.send(queue, Message(body=bytes([nth]) * size))
    caller.receive(queue)


def bodies(desk: Desk, name: str) -> list[bytes]:
    caller = desk.session()
    return caller.receive(caller.open(name))[1]


def settle(desk: Desk) -> int:
    steps = 0
    while look_into(desk.manager).compactor.deadline() is not None:
        desk.advance(QUIET_S)
        steps += 1
    return steps


def test_copies_move_to_journal_files_once_it_is_quiet(desk: Desk):
    journaled(desk, 5)
    assert kinds(desk, "orders;journal") == [Kind.RECOVERABLE] * 5
    desk.advance(QUIET_S / 2)
    assert kinds(desk, "orders;journal") == [Kind.RECOVERABLE] * 5
    settle(desk)
    assert kinds(desk, "orders;journal") == [Kind.JOURNAL] * 5
    assert desk.manager.deadline() is None
    assert bodies(desk, "orders;journal") == [bytes([nth]) * 500 for nth in range(5)]
    assert desk.store.live_bytes == 0


def test_places_survive_a_crash_and_a_checkpoint(desk: Desk):
    journaled(desk, 5)
    settle(desk)
    desk.crash()
    assert kinds(desk, "orders;journal") == [Kind.JOURNAL] * 5
    desk.store.checkpoint(desk.manager.snapshot())
    desk.crash()
    assert desk.store.report.disagreements == ()
    assert bodies(desk, "orders;journal") == [bytes([nth]) * 500 for nth in range(5)]


def test_a_crash_before_the_sync_leaves_copies_where_they_were(desk: Desk):
    journaled(desk, 3)
    before = kinds(desk, "orders;journal")
    desk.now += QUIET_S
    inside = look_into(desk.manager)
    inside.begin_turn(desk.now)
    inside.compactor.tick()
    desk.crash()
    assert kinds(desk, "orders;journal") == before
    settle(desk)
    assert bodies(desk, "orders;journal") == [bytes([nth]) * 500 for nth in range(3)]


def test_a_step_is_bounded_and_the_rest_follows(desk: Desk, monkeypatch):
    monkeypatch.setattr("dray.manager.change.compaction.STEP_BYTES", 1000)
    journaled(desk, 6)
    assert settle(desk) >= 3
    assert kinds(desk, "orders;journal") == [Kind.JOURNAL] * 6


def test_a_damaged_copy_stays_where_it_is(desk: Desk):
    journaled(desk, 2)
    journal = look_into(desk.manager).state.queues.named("orders;journal")
    entry = unpack(journal.index.everything()[0])
    path = desk.path / "storage" / f"p{entry.file:07d}.mq"
    with path.open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    settle(desk)
    assert kinds(desk, "orders;journal") == [Kind.RECOVERABLE, Kind.JOURNAL]


def test_files_that_hold_little_are_emptied_once_room_was_refused(tmp_path, monkeypatch):
    desk = Desk(tmp_path / "data")
    caller = desk.session()
    queue = caller.create("orders", transactional=False)
    for nth in range(40):
        caller.send(queue, Message(body=bytes([nth]) * 15_000))
    positions = [each.lookup_id for each in caller.receive(queue, peek=True)[0]]
    for nth, _ in enumerate(positions):
        if nth % 4:
            caller.receive(queue, select=_at(positions[nth]))
    free = desk.store.free_bytes
    monkeypatch.setattr(desk.store, "free_bytes", lambda: 0)
    with pytest.raises(StoreFull):
        caller.send(queue, Message(body=b"x"))
    monkeypatch.setattr(desk.store, "free_bytes", free)
    before = desk.store.counters.free_heap_files
    settle(desk)
    assert desk.store.counters.free_heap_files > before + 3
    assert [body[0] for body in bodies(desk, "orders")] == list(range(0, 40, 4))


def _at(lookup_id: int):
    from dray.wire.frames import SelectAt

    return SelectAt(lookup_id)


def test_empty_files_go_back_to_the_file_system_some_a_step(desk: Desk, monkeypatch):
    """A large message leaves hundreds behind: giving them all back at once held everybody up."""
    monkeypatch.setattr("dray.store.heap.heap.HEAP_FREE_FILES", 3)
    caller = desk.session()
    queue = caller.create("orders")
    for _ in range(40):
        caller.send(queue, Message(body=bytes(40_000)))
    caller.receive(queue)
    before = desk.store.counters.heap_files
    assert desk.store.surplus_files > 2 * STEP_FILES
    desk.advance(QUIET_S)
    assert desk.store.counters.heap_files == before - STEP_FILES
    settle(desk)
    assert desk.store.surplus_files == 0
    assert desk.store.counters.free_heap_files == 3
    assert desk.manager.deadline() is None
