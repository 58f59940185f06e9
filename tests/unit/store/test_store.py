"""The store as its owner sees it."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreCorrupt, StoreFull, StorePoisoned
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind
from dray.store.real_disk import RealDisk
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk, SimFile
from tests.unit.store.ledger import HEAP_BYTES, LOG_BYTES, Ledger, busy_turn, opened, small_store


@pytest.fixture
def disk():
    return SimDisk(Random(1))


def settled(store: Store, ledger: Ledger, *payloads: bytes) -> None:
    for payload in payloads:
        ledger.put(store, len(ledger.pieces) + 1, payload)
    ledger.end_turn(store)
    store.sync()


def free_files(store: Store) -> int:
    return store.counters.free_heap_files


# ------------------------------------------------------------------------------ durability


def test_what_was_synced_survives_and_what_was_not_is_gone(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"one", b"two")
    before = ledger.state()
    ledger.put(store, 9, b"three")
    store, again = opened(disk.crash(CrashEffect.LOST))
    assert again.state() == before
    again.check(store)


def test_appended_facts_alone_change_nothing_on_the_disk(disk):
    store, ledger = opened(disk)
    operations: list = []
    disk.recorded(operations)
    ledger.end_turn(store)
    assert operations == []


def test_there_is_nothing_to_sync_when_nothing_was_said(disk):
    store, _ = opened(disk)
    assert store.begin_sync() is None
    store.place(b"payload of an open transaction")
    assert store.begin_sync() is None
    store.sync()
    assert store.counters.syncs == 0


def test_a_turn_is_one_group_one_sync_of_each_dirty_file_and_of_the_log(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"a" * 4000)
    syncs = disk.syncs
    settled(store, ledger, b"b" * 4000, b"c" * 4000)
    assert disk.syncs - syncs == 2 + 1 + 1
    # The log has a copy of so little.
    settled(store, ledger, b"d")
    assert disk.syncs - syncs == 4 + 1
    assert store.counters.groups == store.counters.syncs == 3


def test_the_disk_works_at_all_files_while_the_first_is_waited_for(disk, monkeypatch):
    store, ledger = opened(disk)
    done: list[tuple[str, str]] = []
    sync = SimFile.sync
    monkeypatch.setattr(SimFile, "begin_writing", lambda self: done.append(("begun", self.name)))
    monkeypatch.setattr(
        SimFile, "sync", lambda self: (done.append(("synced", self.name)), sync(self))
    )
    settled(store, ledger, b"a" * 4000, b"b" * 4000)
    first, second = "p0000001.mq", "p0000002.mq"
    begun = {("begun", "QMLog"), ("begun", second)}
    assert set(done[:2]) == begun
    assert done[2:] == [("synced", first), ("synced", second), ("synced", "QMLog")]
    done.clear()
    settled(store, ledger)
    assert done == [("synced", "QMLog")]


def test_what_was_only_begun_with_is_not_durable(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"one")
    before = ledger.state()
    ledger.put(store, 9, b"two")
    sync = store.begin_sync()
    for capture in sync.captures:
        capture.file.begin_writing()
    _, again = opened(disk.crash(CrashEffect.LOST))
    assert again.state() == before


def test_a_group_that_was_begun_is_covered_by_the_next_sync_as_well(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"one")
    first = store.begin_sync()
    second = store.begin_sync()
    assert first is not None
    assert second is not None
    second.run()
    store.end_sync(second)
    assert opened(disk.after_crash(CrashEffect.LOST))[1].pieces.keys() == {1}
    first.run()
    store.end_sync(first)
    assert store.begin_sync() is None


def test_a_sync_that_did_not_run_cannot_end(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    sync = store.begin_sync()
    assert sync is not None
    with pytest.raises(AssertionError):
        store.end_sync(sync)


def test_a_failed_sync_poisons_until_the_store_is_reopened(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    ledger.put(store, 2, b"not told")
    disk.fail_sync()
    with pytest.raises(StorePoisoned, match="EIO"):
        store.sync()
    for act in (
        store.begin_sync,
        lambda: store.place(b"x"),
        lambda: store.begin_checkpoint([]),
        store.sync,
    ):
        with pytest.raises(StorePoisoned, match="EIO"):
            act()
    assert store.read(ledger.pieces[1][0]) == b"told"
    store.close([b"never written"])
    store, ledger = opened(disk.crash(CrashEffect.LOST))
    assert ledger.pieces.keys() == {1}


def test_lasting_files_with_something_live_are_named_and_no_others(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"lasting")
    express = store.place(b"express", Kind.EXPRESS)
    gone = store.place(bytes(HEAP_BYTES))
    (lasting, _), *_ = ledger.pieces.values()
    assert store.live_files() == [lasting.file, gone.file]
    store.discard(gone)
    assert store.live_files() == [lasting.file]
    assert store.counters.express_in_memory == express.length
    store.release(express)
    assert store.counters.express_in_memory == 0, "no sync is waited for"


def test_neither_a_sync_nor_a_checkpoint_ends_before_it_has_run(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told by nobody")
    ledger.end_turn(store)
    sync, checkpoint = store.begin_sync(), store.begin_checkpoint(ledger.snapshot())
    assert sync is not None
    assert checkpoint is not None
    for end in (lambda: store.end_sync(sync), lambda: store.end_checkpoint(checkpoint)):
        with pytest.raises(AssertionError, match="must run before it ends"):
            end()
    # With its sync alone, a checkpoint has not run.
    checkpoint.sync.run()
    with pytest.raises(AssertionError, match="a checkpoint must run"):
        store.end_checkpoint(checkpoint)


def test_the_facts_that_wait_for_a_group_are_counted_in_bytes(disk):
    store, _ = opened(disk)
    assert store.waiting_bytes == 0
    store.append(b"turn 1")
    first = store.waiting_bytes
    assert first >= len(b"turn 1")
    store.append(b"turn 2")
    assert store.waiting_bytes == 2 * first
    store.begin_sync()
    assert store.waiting_bytes == 0


def test_a_checkpoint_writes_a_group_only_for_facts_that_wait(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    for waiting in (0, 1, 0):
        if waiting:
            store.append(b"turn 7")
        groups = store.counters.groups
        store.checkpoint(ledger.snapshot())
        assert store.counters.groups - groups == waiting


def test_a_start_counts_the_groups_and_facts_behind_the_checkpoint(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"before")
    store.checkpoint(ledger.snapshot())
    settled(store, ledger, b"one", b"two")
    settled(store, ledger)
    again, _ = opened(disk.kill())
    assert (again.report.groups, again.report.facts) == (2, 3 + 1)


def test_an_owner_whose_state_is_not_sound_keeps_its_store_from_writing(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    ledger.put(store, 2, b"not told")
    store.poison(StorePoisoned("the owner made a mistake"))
    before = disk.image("QMLog")
    for act in (store.sync, lambda: store.place(b"x"), lambda: store.begin_checkpoint([])):
        with pytest.raises(StorePoisoned, match="the owner made a mistake"):
            act()
    assert disk.image("QMLog") == before


def test_a_failed_log_write_poisons_and_tears_nothing_that_was_told(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    ledger.put(store, 2, b"not told" * 100)
    disk.fail_write()
    with pytest.raises(StorePoisoned):
        store.sync()
    store, again = opened(disk.crash(CrashEffect.KEPT))
    assert 1 in again.pieces
    again.check(store)


def test_a_failed_sync_in_recovery_is_an_error_and_may_be_tried_again(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    disk = disk.kill()
    disk.fail_sync(2)
    with pytest.raises(StorePoisoned):
        small_store(disk).recover(Ledger().load)
    assert opened(disk)[1].state() == ledger.state()


# --------------------------------------------------------------------------- reuse of payload


def test_released_bytes_are_reused_only_after_the_sync(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"a" * HEAP_BYTES, *[b"b" * HEAP_BYTES] * 4)
    extent = ledger.pieces[1][0]
    ledger.take(store, 1)
    sync = store.begin_sync()
    assert sync is not None
    assert store.place(b"c" * HEAP_BYTES).file != extent.file
    sync.run()
    assert free_files(store) == 0
    store.end_sync(sync)
    assert free_files(store) == 1
    assert store.place(b"d" * HEAP_BYTES).file == extent.file


def test_files_that_are_emptied_while_they_are_open_count_as_room(disk):
    """A full disk would else refuse what fits into them, for as long as nothing else comes."""
    store, ledger = opened(disk)
    settled(store, ledger, *[b"a" * HEAP_BYTES] * 3)
    before = store.free_bytes()
    for each in (1, 2, 3):
        ledger.take(store, each)
    store.sync()
    assert store.free_bytes() == before + 3 * HEAP_BYTES


def test_room_that_others_took_is_seen_with_the_next_group(disk):
    store, ledger = opened(disk)
    before = store.free_bytes(anew=False)
    disk.open("of another program", size=10_000)
    store.place(b"a" * 100)
    assert store.free_bytes(anew=False) == before - 100
    ledger.end_turn(store)
    store.sync()
    assert store.free_bytes(anew=False) < before - 10_000


def test_a_release_waits_for_its_own_group_not_for_an_earlier_one(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"a" * HEAP_BYTES, *[b"b" * HEAP_BYTES] * 4)
    ledger.end_turn(store)
    early = store.begin_sync()
    ledger.take(store, 1)
    assert early is not None
    early.run()
    store.end_sync(early)
    assert free_files(store) == 0
    store.sync()
    assert free_files(store) == 1


@pytest.mark.parametrize("end", ["begin_sync", "end_sync"])
def test_a_release_after_its_fact_is_durable_needs_no_further_fact(disk, end):
    store, ledger = opened(disk)
    settled(store, ledger, b"a" * HEAP_BYTES, *[b"b" * HEAP_BYTES] * 4)
    store.append(b"take 1")
    if end == "begin_sync":
        store.sync()
        store.release(ledger.pieces[1][0])
        assert store.begin_sync() is None
    else:
        sync = store.begin_sync()
        assert sync is not None
        store.release(ledger.pieces[1][0])
        sync.run()
        store.end_sync(sync)
    assert free_files(store) == 1


def test_discarded_bytes_are_reused_at_once(disk):
    store, _ = opened(disk)
    first = store.place(b"a" * HEAP_BYTES)
    store.discard(first)
    assert store.place(b"b" * HEAP_BYTES) == first
    assert store.live_bytes == HEAP_BYTES


def test_pinned_bytes_stay_while_an_answer_is_under_way(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"a" * HEAP_BYTES, *[b"b" * HEAP_BYTES] * 4)
    extent, _ = ledger.pieces[1]
    store.pin(extent.file)
    ledger.take(store, 1)
    store.sync()
    assert store.place(b"c" * HEAP_BYTES).file != extent.file
    store.unpin(extent.file)
    assert store.place(b"d" * HEAP_BYTES).file == extent.file


def test_space_of_a_transaction_that_a_crash_ended_is_free_again(disk):
    store, ledger = opened(disk)
    for _ in range(5):
        store.place(bytes(HEAP_BYTES))
    ledger.end_turn(store)
    store.sync()
    store, _ = opened(disk.crash(CrashEffect.LOST))
    assert store.live_bytes == 0
    assert free_files(store) == store.counters.heap_files == 5


# ----------------------------------------------------------------------------------- reading


def test_payload_is_read_in_parts(disk):
    store, _ = opened(disk)
    extent = store.place(b"0123456789")
    assert store.read(extent) == b"0123456789"
    assert store.read(extent, offset=3) == b"3456789"
    assert store.read(extent, offset=3, length=2) == b"34"
    assert store.read(extent, offset=8, length=50) == b"89"
    view = memoryview(bytearray(4))
    assert store.read_into(extent, view, offset=4) == 4
    assert bytes(view) == b"4567"
    with pytest.raises(StoreCorrupt):
        store.read(Extent(99, 0, 1))


def test_a_real_store_gives_descriptors_for_sendfile(tmp_path):
    store = Store(RealDisk(tmp_path), heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES)
    store.recover(Ledger().load)
    extent = store.place(b"payload")
    import os

    assert os.pread(store.descriptor(extent.file), extent.length, extent.offset) == b"payload"
    store.close()


def test_who_reads_by_himself_takes_none_of_the_descriptors_that_are_kept(tmp_path):
    store = Store(RealDisk(tmp_path), heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES)
    store.recover(Ledger().load)
    extent = store.place(b"payload")
    store.append(b"placed")
    import os

    sync = store.begin_sync()
    assert sync is not None
    sync.run()
    store.end_sync(sync)
    heap_file = store._heap._files[extent.file]
    store._heap._descriptors.give_up(heap_file)
    descriptor = store.opener(extent.file)()
    assert os.pread(descriptor, extent.length, extent.offset) == b"payload"
    assert heap_file.file is None
    store.close()
    assert os.pread(descriptor, extent.length, extent.offset) == b"payload"
    os.close(descriptor)


# -------------------------------------------------------------------------------- early flush


def test_flushed_files_are_not_synced_again_at_commit(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store.sync()
    for key in range(20):
        ledger.put(store, key, bytes([key]) * HEAP_BYTES)
    files = store.flush_hint()
    assert len(files) == 20
    assert store.handed_out_bytes == store.unsynced_bytes == 20 * HEAP_BYTES
    assert store.flush_hint() == []
    for file in files:
        file.sync()
    store.flushed(files)
    assert store.unsynced_bytes == 0
    syncs = disk.syncs
    store.sync()
    assert disk.syncs - syncs == 1 + 1, "the names and the log"
    assert len(opened(disk.crash(CrashEffect.LOST))[1].pieces) == 20


def test_a_failed_early_flush_poisons_as_well(disk):
    store, _ = opened(disk)
    store.place(bytes(HEAP_BYTES))
    (file,) = store.flush_hint()
    disk.fail_sync()
    with pytest.raises(StorePoisoned):
        file.sync()
    with pytest.raises(StorePoisoned):
        store.begin_sync()


# -------------------------------------------------------------------------------- checkpoints


def test_endless_traffic_stays_within_the_log(disk):
    rng = Random(3)
    store, ledger = opened(disk)
    for _ in range(1500):
        busy_turn(store, ledger, rng, payload_max=200)
        if store.checkpoint_due:
            store.checkpoint(ledger.snapshot())
        store.sync()
        if len(ledger.pieces) > 20:
            ledger.pieces, gone = {}, list(ledger.pieces.values())
            ledger.turn = 0
            for extent, _ in gone:
                store.release(extent)
            store.checkpoint(ledger.snapshot())
    assert store.counters.log_bytes > 20 * LOG_BYTES
    assert disk.open("QMLog").size() == LOG_BYTES
    assert store.counters.heap_files < 30
    store.close()
    _, again = opened(disk.crash(CrashEffect.KEPT))
    assert again.state() == ledger.state()


def test_only_one_checkpoint_is_under_way(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    checkpoint = store.begin_checkpoint(ledger.snapshot())
    assert checkpoint is not None
    assert store.begin_checkpoint(ledger.snapshot()) is None
    assert not store.checkpoint_due
    with pytest.raises(AssertionError):
        store.end_checkpoint(checkpoint)
    with pytest.raises(AssertionError):
        store.checkpoint([])
    checkpoint.run()
    store.end_checkpoint(checkpoint)
    assert store.counters.checkpoints == 1


def test_turns_go_on_while_a_checkpoint_is_under_way(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"before")
    checkpoint = store.begin_checkpoint(ledger.snapshot())
    assert checkpoint is not None
    settled(store, ledger, b"meanwhile")
    state = ledger.state()
    assert opened(disk.after_crash(CrashEffect.LOST))[1].state() == state
    checkpoint.run()
    assert opened(disk.after_crash(CrashEffect.LOST))[1].state() == state
    store.end_checkpoint(checkpoint)
    settled(store, ledger, b"after")
    assert opened(disk.after_crash(CrashEffect.LOST))[1].state() == ledger.state()


def test_a_checkpoint_settles_the_facts_that_waited(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"waits")
    store.checkpoint(ledger.snapshot())
    assert store.begin_sync() is None
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


def test_a_full_log_asks_for_a_checkpoint_and_then_goes_on(disk):
    store, ledger = opened(disk)
    store.append(b"turn 0".ljust(8000))
    store.sync()
    store.append(b"turn 1".ljust(8000))
    assert store.checkpoint_due
    with pytest.raises(StoreFull):
        store.begin_sync()
    ledger.turn = 1
    while store.checkpoint_due:
        store.checkpoint(ledger.snapshot())
    store.sync()
    assert opened(disk.crash(CrashEffect.LOST))[1].turn == 1


def test_waiting_for_a_checkpoint_that_is_under_way_is_still_due(disk):
    store, ledger = opened(disk)
    settled(store, ledger)
    checkpoint = store.begin_checkpoint(ledger.snapshot())
    assert not store.checkpoint_due
    store.append(b"turn 1".ljust(14900))
    assert store.checkpoint_due
    assert checkpoint is not None
    checkpoint.run()
    store.end_checkpoint(checkpoint)


def test_a_group_that_can_never_fit_is_a_clear_error(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    assert store.group_bytes_max < LOG_BYTES
    store.append(bytes(store.group_bytes_max + 512))
    with pytest.raises(StorePoisoned, match="larger than the log"):
        store.begin_sync()
    with pytest.raises(StorePoisoned, match="larger than the log"):
        store.begin_sync()
    store.close()
    assert opened(disk)[1].state() == ledger.state()


def test_a_disk_too_full_for_a_checkpoint_leaves_the_old_one_and_the_store(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    store.checkpoint(ledger.snapshot())
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.checkpoint([bytes(200_000)])
    assert store.counters.checkpoints == 1
    assert not store.checkpoint_due
    settled(store, ledger, b"x")
    assert opened(disk.after_crash(CrashEffect.LOST))[1].state() == ledger.state()
    for _ in range(5):
        settled(store, ledger)
    assert store.checkpoint_due
    store.checkpoint(ledger.snapshot())
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


@pytest.mark.parametrize("refused", ["snapshot", "header"])
def test_a_disk_that_refuses_a_part_of_a_checkpoint_refuses_the_checkpoint(disk, refused):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    # Of an empty snapshot only the header is written.
    checkpoint = store.begin_checkpoint(ledger.snapshot() if refused == "snapshot" else [])
    assert checkpoint is not None
    disk.cut_off("MQTrans.lg1", 0)
    disk.full_after(0)
    checkpoint.run()
    assert isinstance(checkpoint.refused, StoreFull)
    store.end_checkpoint(checkpoint)
    assert store.counters.checkpoints == 0
    disk = disk.crash(CrashEffect.KEPT)
    disk.full_after(1 << 20)
    assert opened(disk)[1].state() == ledger.state()


def test_a_snapshot_that_breaks_off_changes_nothing(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")

    def broken():
        yield b"put"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.checkpoint(broken())
    store.checkpoint(ledger.snapshot())
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


# ---------------------------------------------------------------------------------- full disk


def test_a_full_disk_refuses_payload_and_leaves_the_store_usable(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told" * 500)
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.place(bytes(HEAP_BYTES))
    assert store.read(ledger.pieces[1][0]) == b"told" * 500
    ledger.take(store, 1)
    ledger.end_turn(store)
    store.sync()
    assert store.place(bytes(HEAP_BYTES)).length == HEAP_BYTES
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


def test_a_disk_too_full_for_a_new_store_is_refused_and_fine_later(disk):
    disk.full_after(1000)
    with pytest.raises(StoreFull):
        small_store(disk).recover(Ledger().load)
    disk.full_after(1 << 20)
    opened(disk)


# ------------------------------------------------------------------------------ rest and close


def test_close_makes_everything_durable_and_the_next_start_replays_nothing(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"one")
    store.close(ledger.snapshot())
    again = Ledger()
    report = small_store(disk.crash(CrashEffect.LOST)).recover(again.load)
    assert again.state() == ledger.state()
    assert (report.facts, report.checkpoint) == (0, "MQTrans.lg1")


def test_close_without_a_snapshot_keeps_the_facts_in_the_log(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"one")
    store.close()
    assert opened(disk)[1].state() == ledger.state()


def test_close_with_a_checkpoint_under_way_leaves_it(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"one")
    assert store.begin_checkpoint(ledger.snapshot()) is not None
    store.close(ledger.snapshot())
    assert opened(disk)[1].state() == ledger.state()


def test_close_of_a_store_that_was_never_opened_unlocks(disk):
    small_store(disk).close()
    opened(disk)


def test_close_on_a_full_disk_unlocks_and_says_so(disk):
    store, ledger = opened(disk)
    settled(store, ledger, b"told")
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.close([bytes(200_000)])
    assert opened(disk)[1].state() == ledger.state()


def test_a_seal_is_written_once_in_a_quiet_moment(disk):
    store, ledger = opened(disk)
    store.seal()
    start = store.counters.log_bytes
    ledger.put(store, 1, b"one")
    store.seal()
    assert store.counters.log_bytes == start
    store.sync()
    written = store.counters.log_bytes
    store.seal()
    store.seal()
    assert store.counters.log_bytes == written + 512
    syncs = disk.syncs
    assert store.begin_sync() is None
    assert disk.syncs == syncs


def test_every_epoch_has_a_higher_epoch(disk):
    epochs = []
    for _ in range(4):
        epochs.append(small_store(disk).recover(Ledger().load).epoch)
        disk = disk.crash(CrashEffect.LOST)
    assert epochs == [1, 2, 3, 4]


def test_crash_after_crash_fills_the_reserve_and_then_asks_for_a_checkpoint(disk):
    store, ledger = opened(disk)
    while not store.checkpoint_due or store._log.head < 14000:
        settled(store, ledger)
    state = ledger.state()
    for _ in range(6):
        disk = disk.crash(CrashEffect.LOST)
        store, ledger = opened(disk)
        assert ledger.state() == state
    assert store._log.head == LOG_BYTES
    ledger.end_turn(store)
    assert store.checkpoint_due
    while store.checkpoint_due:
        store.checkpoint(ledger.snapshot())
    store.sync()
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


def test_of_a_file_that_is_flushed_again_only_what_is_new_in_it_counts(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, bytes(HEAP_BYTES // 2))
    ledger.end_turn(store)
    store.sync()
    assert store.handed_out_bytes == 0
    ledger.put(store, 2, bytes(HEAP_BYTES // 2))
    unsynced = store.unsynced_bytes
    files = store.flush_hint()
    assert len(files) == 1
    assert store.handed_out_bytes == unsynced == HEAP_BYTES // 2
    for file in files:
        file.sync()
    store.flushed(files)
