"""The power fails at every point of what is done to queues' files, and each start heals it."""

from __future__ import annotations

from random import Random

import pytest

from dray.manager.disk import describe_in_file, path_in_file
from dray.manager.events import ManagerConfig, Request, SessionOpened
from dray.manager.turn import QueueManager
from dray.model.callers import OWNER
from dray.model.queue import QueueOptions
from dray.store.lqs import FOLDER, decode, encode, file_name
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk
from dray.wire import frames, queue_frames
from dray.wire.head import Head
from dray.wire.stream import Frame
from tests.crash.crash_states import CrashState, crash_states
from tests.inspection import look_into

NOW = 1_700_000_000.0
ADMIN = f"{FOLDER}/{file_name(2, 'admin_queue$')}"


def load(disk: SimDisk) -> tuple[QueueManager, Store]:
    store = Store(disk, heap_file_bytes=1 << 16, log_bytes=1 << 16, queue_files=True)
    return QueueManager.load(store, ManagerConfig(manager_id="a" * 32), NOW), store


def call(manager: QueueManager, store: Store, *heads: Head) -> None:
    for number, head in enumerate(heads, 1):
        manager.handle(Request(1, Frame(head, number, memoryview(b""))), NOW)
        store.sync()


def queues_of(manager: QueueManager) -> dict[str, QueueOptions]:
    return {queue.name: queue.options for queue in look_into(manager).state.queues}


def assert_healed(state: CrashState) -> tuple[QueueManager, SimDisk]:
    """It starts, and every file says what the state says; the next start has nothing to tell."""
    manager, store = load(state.disk)
    store.sync()
    disk = state.disk
    expected = {
        file_name(queue.number, path_in_file(queue)): encode(describe_in_file(queue))
        for queue in look_into(manager).state.queues
    }
    assert {name: disk.image(f"{FOLDER}/{name}") for name in disk.names(FOLDER)} == expected
    after = disk.after_crash(CrashEffect.LOST)
    again, _ = load(after)
    assert again.notices() == []
    assert queues_of(again) == queues_of(manager)
    return manager, disk


@pytest.mark.slow
def test_birth_and_changes_heal_whenever_the_power_fails():
    operations = []
    disk = SimDisk(Random(7)).recorded(operations)
    manager, store = load(disk)
    store.sync()
    manager.handle(SessionOpened(1, OWNER), NOW)
    told: list[tuple[int, set[str]]] = [(len(operations), set(queues_of(manager)))]
    for head in (
        frames.Hello("client"),
        queue_frames.CreateQueue("a", QueueOptions(journal=True)),
        queue_frames.CreateQueue("b", QueueOptions(quota=1)),
        queue_frames.SetQuota("a", 5, 6),
        queue_frames.DeleteQueue("a"),
    ):
        call(manager, store, head)
        told.append((len(operations), set(queues_of(manager))))
    seen = 0
    for state in crash_states(operations, Random(7)):
        recovered, _ = assert_healed(state)
        certain = [queues for done, queues in told if done <= state.done]
        possible = [queues for done, queues in told if done > state.done][:1]
        assert set(queues_of(recovered)) in certain[-1:] + possible + [set()][: not certain]
        seen += 1
    assert seen > 300


@pytest.mark.slow
@pytest.mark.parametrize("how", ["damaged", "missing", "edited", "stray"])
def test_mending_heals_whenever_the_power_fails(how):
    disk = SimDisk(Random(7))
    manager, store = load(disk)
    store.sync()
    manager.handle(SessionOpened(1, OWNER), NOW)
    call(manager, store, frames.Hello("client"), queue_frames.CreateQueue("a", QueueOptions()))
    store.close(manager.snapshot())
    ours = f"{FOLDER}/{file_name(16, path_in_file(look_into(manager).state.queues.named('a')))}"
    match how:
        case "damaged":
            disk.damage(ADMIN, 0, b"?")
        case "missing":
            disk.lose(ours)
        case "edited":
            image = disk.image(ours).replace(b"Quota=none\nJ", b"Quota=4096\nJ")
            disk.cut_off(ours, 0)
            disk.damage(ours, 0, image)
        case "stray":
            disk.open(f"{FOLDER}/stray").write(b"mine", 0)
            disk.open(f"{FOLDER}/stray").sync()
            disk.sync_directory(FOLDER)
    base = disk.after_crash(CrashEffect.KEPT)
    operations: list = []
    _, store = load(base.after_crash(CrashEffect.KEPT).recorded(operations))
    store.sync()
    for state in crash_states(operations, Random(7), base=base):
        manager, healed = assert_healed(state)
        kept = {name: healed.image(f"quarantine/{name}") for name in healed.names("quarantine")}
        if how == "edited":
            assert decode(healed.image(ours)).description.quota == 4096
        if how == "stray":
            assert list(kept.values()) == [b"mine"]
        if how == "damaged":
            assert [image[:1] for image in kept.values()] == [b"?"]
