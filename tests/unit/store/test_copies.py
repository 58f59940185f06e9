"""Copies of small payload in the log, and what a start does with them."""

from __future__ import annotations

from random import Random
from unittest.mock import Mock

import pytest

from dray.errors import StoreCorrupt
from dray.store.limits import (
    CHECKPOINT_SHORT_BYTES,
    COPIED_BYTES_LITTLE,
    COPIED_BYTES_MAX,
    COPIED_LOG_SHARE,
)
from dray.store.log.copies import Copies
from dray.store.log.group import DirtyRange, decode_header
from dray.store.recovery.recovery import Loss
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk, SimFile
from tests.unit.store.ledger import LOG_BYTES, Ledger, opened, small_store

MOST = LOG_BYTES // COPIED_LOG_SHARE
HEAP = "p0000001.mq"


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def store(disk, ledger):
    """A store whose first heap file is durable, with its name."""
    store, _ = opened(disk, ledger)
    put(store, ledger, 1, b"first")
    return store


def put(store: Store, ledger: Ledger, key: int, payload: bytes) -> None:
    ledger.put(store, key, payload)
    ledger.end_turn(store)
    store.sync()


def lose(disk: SimDisk, ledger: Ledger, *keys: int) -> SimDisk:
    """The disk after a power failure that took the bytes of these pieces from the heap."""
    lost = disk.kill()
    for key in keys:
        extent, _ = ledger.pieces[key]
        lost.damage(HEAP, extent.offset, bytes(extent.length))
    return lost


def test_a_turn_with_little_payload_syncs_the_log_alone(disk, store, ledger):
    syncs = disk.syncs
    put(store, ledger, 2, b"a" * 1000)
    assert disk.syncs - syncs == 1
    put(store, ledger, 3, b"b" * (MOST + 1))
    assert disk.syncs - syncs == 1 + 2


def test_the_first_little_payload_after_a_start_syncs_the_log_alone(disk, store, ledger):
    disk = disk.kill()
    again, ledger = opened(disk)
    syncs = disk.syncs
    put(again, ledger, 2, b"a" * 1000)
    assert disk.syncs - syncs == 1


def test_the_bounds_of_a_group_are_those_of_the_limits():
    assert (COPIED_BYTES_LITTLE, COPIED_BYTES_MAX) == (16 << 10, 256 << 10)
    assert CHECKPOINT_SHORT_BYTES == 4 << 20
    assert MOST == 2 << 10


@pytest.fixture
def roomy(disk, ledger):
    """A store with a log of 1 MiB, which copies up to 128 KiB."""
    store = Store(disk, heap_file_bytes=1 << 20, log_bytes=1 << 20)
    store.recover(ledger.load)
    put(store, ledger, 1, b"first")
    return store


def test_payload_of_a_batch_is_copied_while_checkpoints_are_short(disk, roomy, ledger, monkeypatch):
    syncs = []
    for key, size in ((2, 100_000), (3, 100_000), (4, 10_000)):
        before = disk.syncs
        put(roomy, ledger, key, bytes(size))
        syncs.append(disk.syncs - before)
        # From here on each is too long to be brought nearer.
        monkeypatch.setattr("dray.store.checkpoints.CHECKPOINT_SHORT_BYTES", 0)
        roomy.checkpoint(ledger.snapshot())
    assert syncs == [1, 2, 1]


def test_payload_of_a_batch_is_copied_if_one_caller_waits_for_it(roomy, ledger):
    synced = []
    for key, lone in ((2, True), (3, False)):
        ledger.put(roomy, key, bytes(100_000))
        ledger.end_turn(roomy)
        sync = roomy.begin_sync(lone=lone)
        sync.run()
        roomy.end_sync(sync)
        synced.append(sync.heap_bytes > 0)
    assert synced == [False, True]


def test_a_batch_of_one_write_is_not_read_back_for_its_copy(disk, roomy, ledger, monkeypatch):
    read_back, read = [], roomy._heap.read

    def reading(extent):
        read_back.append(extent.length)
        return read(extent)

    monkeypatch.setattr(roomy._heap, "read", reading)
    put(roomy, ledger, 2, b"batch" * 20_000)
    assert not read_back
    for key in (3, 4):
        ledger.put(roomy, key, b"piece" * 1000)
    ledger.end_turn(roomy)
    roomy.sync()
    assert read_back == [2 * 5000]
    again = Ledger()
    store = Store(disk.crash(CrashEffect.LOST), heap_file_bytes=1 << 20, log_bytes=1 << 20)
    assert store.recover(again.load).lost == ()
    again.check(store)


def test_payload_of_a_batch_comes_back_from_the_log(disk, roomy, ledger):
    put(roomy, ledger, 2, b"batch" * 20_000)
    after = disk.crash(CrashEffect.LOST)
    again = Ledger()
    store = Store(after, heap_file_bytes=1 << 20, log_bytes=1 << 20)
    assert store.recover(again.load).lost == ()
    assert again.state() == ledger.state()
    again.check(store)


def test_heap_files_that_the_log_has_copies_of_are_not_synced_early(roomy, ledger):
    for key in range(2, 5):
        put(roomy, ledger, key, bytes(100_000))
    assert roomy.flush_hint() == []
    for key in range(5, 8):
        ledger.put(roomy, key, bytes(100_000))
    assert len(roomy.flush_hint()) == 1


def test_payload_that_the_heap_lost_comes_back_from_the_log(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    put(store, ledger, 3, b"third" * 100)
    again = Ledger()
    after = lose(disk, ledger, 2, 3)
    store = small_store(after)
    report = store.recover(again.load)
    assert again.state() == ledger.state()
    assert report.lost == ()
    again.check(store)
    # The start has made it durable in the heap before it began.
    store, last = opened(after.after_crash(CrashEffect.LOST))
    assert store.report.verified_extents > 0
    last.check(store)


def test_a_checkpoint_makes_copied_payload_durable_in_the_heap(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    store.checkpoint(ledger.snapshot())
    after = disk.crash(CrashEffect.LOST)
    extent, _ = ledger.pieces[2]
    assert after.image(HEAP)[extent.offset : extent.offset + extent.length] == b"second" * 100


def test_payload_of_a_large_group_is_synced_with_what_was_copied_before(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    put(store, ledger, 3, b"c" * (MOST + 1))
    after = disk.crash(CrashEffect.LOST)
    store, again = opened(after)
    assert again.state() == ledger.state()
    again.check(store)


def test_facts_without_payload_sync_no_heap_file(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    syncs = disk.syncs
    ledger.take(store, 2)
    ledger.end_turn(store)
    store.sync()
    assert disk.syncs - syncs == 1


def test_payload_of_a_new_heap_file_is_not_copied_before_its_name_is_durable(disk, ledger):
    store, _ = opened(disk, ledger)
    syncs = disk.syncs
    put(store, ledger, 1, b"first")
    # The heap file, the folder and the log.
    assert disk.syncs - syncs == 3
    put(store, ledger, 2, b"second")
    assert disk.syncs - syncs == 3 + 1


def test_of_a_heap_file_a_start_reads_no_more_than_the_log_has_copies_of(disk, store, ledger):
    put(store, ledger, 2, b"a" * (MOST + 1))
    put(store, ledger, 3, b"third")
    again = Ledger()
    assert small_store(disk.kill()).recover(again.load).verified_extents == 1
    assert again.state() == ledger.state()


def test_what_a_start_found_after_a_kill_survives_a_power_failure(disk, store, ledger, monkeypatch):
    class KilledError(Exception):
        """The kill comes when all is written, and before the disk has any of it."""

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "sync", Mock(side_effect=KilledError))
        with pytest.raises(KilledError):
            put(store, ledger, 2, b"a" * (MOST + 1))
    killed = disk.kill()
    _, told = opened(killed)
    assert told.state() == ledger.state()
    store, again = opened(killed.crash(CrashEffect.LOST))
    assert again.state() == told.state()
    again.check(store)


def test_for_damage_to_what_was_durable_no_newer_group_is_cut(disk, store, ledger):
    syncs = []
    for key in (2, 3):
        ledger.put(store, key, b"%d" % key * (MOST + 1))
        ledger.end_turn(store)
        syncs.append(store.begin_sync())
    syncs[0].run()
    store.end_sync(syncs[0])
    killed = lose(disk, ledger, 2)
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert again.state() == ledger.state()
    assert (report.cut_groups, report.spoiled) == (0, (ledger.pieces[2][0],))


def test_a_damaged_copy_harms_nothing_while_the_heap_has_the_payload(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    killed = disk.kill()
    at = bytes(killed.image("QMLog")).find(b"secondsecond")
    killed.damage("QMLog", at + 100, b"?")
    store, again = opened(killed)
    assert again.state() == ledger.state()
    assert store.report.lost == ()
    again.check(store)


def test_damage_to_heap_and_copy_is_told_as_damage_to_that_message(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    put(store, ledger, 3, b"third" * 100)
    killed = lose(disk, ledger, 2)
    at = bytes(killed.image("QMLog")).find(b"secondsecond")
    killed.damage("QMLog", at + 100, b"?")
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert again.state() == ledger.state()
    assert report.spoiled == (ledger.pieces[2][0],)
    assert report.lost == (Loss.UNREADABLE,)


def test_a_heap_file_that_was_cut_off_is_not_written_to(disk, store, ledger):
    put(store, ledger, 2, b"second" * 100)
    killed = disk.kill()
    killed.cut_off(HEAP, ledger.pieces[2][0].offset + 10)
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert report.quarantined == (ledger.pieces[2][0],)
    assert len(killed.image(HEAP)) == ledger.pieces[2][0].offset + 10


def test_payload_that_cannot_be_read_back_is_synced_instead(disk, store, ledger, monkeypatch):
    def refuse(*_):
        raise StoreCorrupt("unreadable", event=2083, file=HEAP)

    for key in (2, 3):
        ledger.put(store, key, b"second" * 100)
    ledger.end_turn(store)
    syncs = disk.syncs
    monkeypatch.setattr(store._heap, "read", refuse)
    store.sync()
    assert disk.syncs - syncs == 2


def test_a_lone_message_is_copied_without_reading_it_back(disk, store, ledger, monkeypatch):
    with monkeypatch.context() as patched:
        # Only of this store: others in this process may be at work.
        patched.setattr(store._heap, "read", None)
        for key in (2, 3, 4):
            put(store, ledger, key, b"%d" % key * 100)
    again = Ledger()
    small_store(lose(disk, ledger, 2, 3, 4)).recover(again.load)
    assert again.state() == ledger.state()


def test_a_copy_makes_those_void_that_lay_there_before():
    copies = Copies()
    copies.add(DirtyRange(1, 0, 100), 1000)
    copies.add(DirtyRange(1, 100, 200), 2000)
    copies.add(DirtyRange(2, 50, 60), 3000)
    assert copies.lsn_of(DirtyRange(1, 110, 130)) == 2010
    assert copies.lsn_of(DirtyRange(1, 90, 110)) is None
    assert copies.lsn_of(DirtyRange(2, 40, 45)) is None
    assert copies.lsn_of(DirtyRange(3, 0, 5)) is None
    copies.add(DirtyRange(1, 50, 150), 4000)
    assert copies.lsn_of(DirtyRange(1, 10, 30)) == 1010
    assert copies.lsn_of(DirtyRange(1, 110, 130)) == 4060
    assert copies.lsn_of(DirtyRange(1, 150, 170)) is None
    assert copies.files == {1, 2}
    copies.add(DirtyRange(1, 0, 5), 5000)
    assert copies.lsn_of(DirtyRange(1, 0, 5)) == 5000
    assert copies.lsn_of(DirtyRange(1, 0, 50)) is None


def test_a_group_with_copies_says_so_and_one_without_does_not(disk, store, ledger):
    flags = []
    put(store, ledger, 2, b"second")
    put(store, ledger, 3, b"c" * (MOST + 1))
    image, lsn = bytearray(disk.image("QMLog")), 0
    while (group := decode_header(image, lsn)) is not None:
        flags.append(group.flags)
        lsn = group.end
    assert flags[-2:] == [4, 0], "as they stand on disk"
