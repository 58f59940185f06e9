"""In quiet moments records move to the heap files in which they belong."""

from __future__ import annotations

import pytest

from dray.errors import StoreFull
from dray.manager.change.compaction import QUIET_S, STEP_FILES
from dray.manager.entries import unpack
from dray.model.message import Message
from dray.store.kinds import Kind, kind_of
from dray.wire.queue_frames import DeleteQueue
from dray.wire.record import HEADER_BYTES
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver


@pytest.fixture(autouse=True)
def nothing_at_once(monkeypatch):
    """Small copies would go to journal files by themselves; here they stand for longer ones."""
    monkeypatch.setattr("dray.manager.change.departures.REWRITTEN_BYTES_MAX", 0)


def kinds(driver: ManagerDriver, queue: str) -> list[Kind]:
    index = look_into(driver.manager).state.queues.named(queue).index
    return [kind_of(unpack(packed).file) for packed in index.everything()]


def journaled(driver: ManagerDriver, count: int, size: int = 500) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    for nth in range(count):
        caller.send(queue, Message(body=bytes([nth]) * size))
    caller.receive(queue)


def bodies(driver: ManagerDriver, name: str) -> list[bytes]:
    caller = driver.session()
    return caller.receive(caller.open(name))[1]


def settle(driver: ManagerDriver) -> int:
    steps = 0
    while look_into(driver.manager).compactor.deadline() is not None:
        driver.advance(QUIET_S)
        steps += 1
    return steps


def test_copies_move_to_journal_files_once_it_is_quiet(driver: ManagerDriver):
    journaled(driver, 5)
    assert kinds(driver, "orders;journal") == [Kind.RECOVERABLE] * 5
    for _ in range(3):
        driver.advance(QUIET_S / 2)
        assert kinds(driver, "orders;journal") == [Kind.RECOVERABLE] * 5
        driver.session()
    settle(driver)
    assert kinds(driver, "orders;journal") == [Kind.JOURNAL] * 5
    assert driver.manager.deadline() is None
    assert bodies(driver, "orders;journal") == [bytes([nth]) * 500 for nth in range(5)]
    assert driver.store.live_bytes == 0


def test_places_survive_a_crash_and_a_checkpoint(driver: ManagerDriver):
    journaled(driver, 5)
    settle(driver)
    driver.crash()
    assert kinds(driver, "orders;journal") == [Kind.JOURNAL] * 5
    driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    assert driver.store.report.disagreements == ()
    assert bodies(driver, "orders;journal") == [bytes([nth]) * 500 for nth in range(5)]


def test_a_crash_before_the_sync_leaves_copies_where_they_were(driver: ManagerDriver):
    journaled(driver, 3)
    before = kinds(driver, "orders;journal")
    driver.now += QUIET_S
    inside = look_into(driver.manager)
    inside.begin_turn(driver.now)
    inside.compactor.tick()
    driver.crash()
    assert kinds(driver, "orders;journal") == before
    settle(driver)
    assert kinds(driver, "orders;journal") == [Kind.JOURNAL] * 3
    assert bodies(driver, "orders;journal") == [bytes([nth]) * 500 for nth in range(3)]


@pytest.mark.parametrize(
    ("bound", "two"),
    [
        ("STEP_BYTES", 2 * (HEADER_BYTES + 500)),
        ("STEP_BYTES", HEADER_BYTES + 501),
        ("STEP_MESSAGES_MAX", 2),
    ],
)
def test_a_step_is_bounded_and_the_rest_follows(
    driver: ManagerDriver, monkeypatch, bound: str, two: int
):
    monkeypatch.setattr(f"dray.manager.change.compaction.{bound}", two)
    journaled(driver, 6, size=500)
    for _ in range(3):
        assert driver.manager.deadline() == driver.now + QUIET_S
        driver.advance(QUIET_S)
    assert driver.manager.deadline() is None
    assert kinds(driver, "orders;journal") == [Kind.JOURNAL] * 6


def test_copies_that_are_gone_before_it_is_quiet_leave_nothing_to_do(driver: ManagerDriver):
    journaled(driver, 2)
    driver.session().call(DeleteQueue("orders"))
    driver.advance(QUIET_S)
    assert look_into(driver.manager).compactor.deadline() is None


def test_a_damaged_copy_stays_where_it_is(driver: ManagerDriver):
    journaled(driver, 2)
    journal = look_into(driver.manager).state.queues.named("orders;journal")
    entry = unpack(journal.index.everything()[0])
    path = driver.path / "storage" / f"p{entry.file:07d}.mq"
    with path.open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    settle(driver)
    assert kinds(driver, "orders;journal") == [Kind.RECOVERABLE, Kind.JOURNAL]


def test_files_that_hold_little_are_emptied_once_room_was_refused(tmp_path, monkeypatch):
    driver = ManagerDriver(tmp_path / "data")
    caller = driver.session()
    queue = caller.create("orders", transactional=False)
    for nth in range(40):
        caller.send(queue, Message(body=bytes([nth]) * 15_000))
    positions = [each.lookup_id for each in caller.receive(queue, peek=True)[0]]
    for nth, _ in enumerate(positions):
        if nth % 4:
            caller.receive(queue, select=_at(positions[nth]))
    free = driver.store.free_bytes
    monkeypatch.setattr(driver.store, "free_bytes", lambda **_: 0)
    with pytest.raises(StoreFull):
        caller.send(queue, Message(body=b"x"))
    monkeypatch.setattr(driver.store, "free_bytes", free)
    before = driver.store.counters.free_heap_files
    settle(driver)
    assert driver.store.counters.free_heap_files > before + 3
    assert [body[0] for body in bodies(driver, "orders")] == list(range(0, 40, 4))


def _at(lookup_id: int):
    from dray.wire.selections import SelectAt

    return SelectAt(lookup_id)


def test_empty_files_go_back_to_the_file_system_some_a_step(driver: ManagerDriver, monkeypatch):
    """A large message leaves hundreds behind: giving them all back at once held everybody up."""
    monkeypatch.setattr("dray.store.heap.heap.HEAP_FREE_FILES", 3)
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(40):
        caller.send(queue, Message(body=bytes(40_000)))
    caller.receive(queue)
    before = driver.store.counters.heap_files
    assert driver.store.surplus_files > 2 * STEP_FILES
    driver.advance(QUIET_S)
    assert driver.store.counters.heap_files == before - STEP_FILES
    assert driver.manager.deadline() == driver.now + QUIET_S
    settle(driver)
    assert driver.store.surplus_files == 0
    assert driver.store.counters.free_heap_files == 3
    assert driver.manager.deadline() is None
