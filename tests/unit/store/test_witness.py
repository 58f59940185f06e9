"""How far the log was durable, by files that are not the log."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from dray.errors import StoreCorrupt, StorePoisoned
from dray.store.disk import LOCK_NAME
from dray.store.heap.maps import MAP_NAMES, encode_map, map_name, read_map
from dray.store.heap.witness import END_AT, forget_end, note_end, read_end
from dray.store.limits import SECTOR_BYTES
from dray.store.log.checkpoint import NAMES
from dray.store.recovery.recovery import Loss
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import Ledger, busy_turn, opened, small_store

FILES = (LOCK_NAME, *MAP_NAMES)
GROUPS_OF_FILES = {"log": ("QMLog",), "checkpoints": NAMES, "maps": MAP_NAMES}
COMBINATIONS = [
    each for count in range(1, 4) for each in combinations(sorted(GROUPS_OF_FILES), count)
]


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.mark.parametrize("name", FILES)
def test_the_file_that_vouches_for_most_is_believed(disk, name):
    for lsn, each in enumerate(FILES, 1):
        note_end(disk.open(each, size=SECTOR_BYTES), 512 * lsn)
    note_end(disk.open(name), 512 * 9)
    assert read_end(disk) == (name, 512 * 9)


def test_without_a_note_nothing_is_vouched_for(disk):
    assert read_end(disk).lsn == 0
    disk.open(LOCK_NAME, size=SECTOR_BYTES)
    assert read_end(disk).lsn == 0


def test_a_note_leaves_the_rest_of_its_file_alone(disk):
    file = disk.open(map_name(2))
    file.write(encode_map(2, {1: b"\x0f"}), 0)
    note_end(file, 512)
    assert read_map(disk, 2).blocks == {1: b"\x0f"}
    assert read_end(disk) == (map_name(2), 512)


@pytest.mark.parametrize("name", FILES)
def test_a_note_that_is_damaged_cut_or_unreadable_is_no_witness(disk, name):
    note_end(disk.open(name, size=SECTOR_BYTES), 512)
    for offset in range(END_AT, END_AT + 16):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage(name, offset, bytes([disk.image(name)[offset] ^ 1]))
        assert read_end(copy).lsn == 0
    disk.cut_off(name, END_AT + 8)
    assert read_end(disk).lsn == 0
    disk.make_unreadable(name)
    assert read_end(disk).lsn == 0


def test_a_disk_too_full_for_a_note_keeps_the_one_before(disk):
    note_end(disk.open(LOCK_NAME, size=SECTOR_BYTES), 512)
    grown = disk.open(MAP_NAMES[0])
    disk.full_after(0)
    note_end(grown, 1024)
    assert read_end(disk) == (LOCK_NAME, 512)


def test_what_a_file_says_of_a_former_store_is_durably_forgotten(disk):
    for name in FILES:
        note_end(disk.open(name, size=SECTOR_BYTES), 512)
        disk.open(name).sync()
    disk.sync_directory()
    for name in (*FILES, "absent"):
        forget_end(disk, name)
        forget_end(disk, name)
    assert read_end(disk.crash(CrashEffect.LOST)).lsn == 0


def test_a_new_store_is_not_measured_by_the_notes_of_the_one_before(disk):
    for name in FILES:
        note_end(disk.open(name, size=SECTOR_BYTES), 1 << 40)
        disk.open(name).sync()
    disk.sync_directory()
    store, ledger = opened(disk)
    busy_turn(store, ledger, Random(2))
    store.sync()
    assert opened(disk.crash(CrashEffect.LOST))[1].state() == ledger.state()


# ------------------------------------------------------------------- in the epoch of a store


def test_each_sync_is_noted_before_anybody_is_told(disk):
    store, ledger = opened(disk)
    for _ in range(20):
        busy_turn(store, ledger, Random(2))
        store.sync()
        assert read_end(disk) == (LOCK_NAME, store._log.head)
    busy_turn(store, ledger, Random(2))
    sync = store.begin_sync()
    sync.run()
    assert read_end(disk).lsn < store._log.head
    store.end_sync(sync)
    assert read_end(disk).lsn == store._log.head


def test_a_note_costs_no_sync(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told")
    before = disk.syncs
    store.sync()
    assert disk.syncs == before + 3, "the message file, its name and the log"


def test_a_note_that_cannot_be_written_poisons_before_anybody_is_told(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    sync = store.begin_sync()
    sync.run()
    disk.fail_write()
    with pytest.raises(StorePoisoned):
        store.end_sync(sync)


def two_moments(*, checkpoint: bool, closed: bool) -> tuple[SimDisk, SimDisk, object]:
    """A store, the same one some turns later, and the state it has then."""
    rng = Random(4)
    store, ledger = opened(SimDisk(rng))
    for _ in range(6):
        busy_turn(store, ledger, rng)
        store.sync()
    store.checkpoint(ledger.snapshot())
    busy_turn(store, ledger, rng)
    store.sync()
    older = store._disk._inner.after_crash(CrashEffect.KEPT)
    for _ in range(6):
        busy_turn(store, ledger, rng)
        store.sync()
    if checkpoint:
        store.checkpoint(ledger.snapshot())
        busy_turn(store, ledger, rng)
        store.sync()
    disk = store._disk._inner
    if closed:
        store.close(ledger.snapshot())
        return older, disk, ledger.state()
    return older, disk.kill(), ledger.state()


REFUSED = (2079, "QMLog")


def outcome(disk: SimDisk) -> object:
    """The state that comes back, or event and file of the refusal."""
    ledger = Ledger()
    try:
        small_store(disk).recover(ledger.load)
    except StoreCorrupt as error:
        return error.event, error.file
    return ledger.state()


def put_back(disk: SimDisk, older: SimDisk, name: str) -> None:
    disk.damage(name, 0, older.image(name))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("which", COMBINATIONS, ids="+".join)
def test_older_files_that_are_put_back_lose_nothing_or_are_refused(which, checkpoint, closed):
    older, disk, state = two_moments(checkpoint=checkpoint, closed=closed)
    for group in which:
        for name in GROUPS_OF_FILES[group]:
            put_back(disk, older, name)
    found = outcome(disk)
    assert found == state or (found == REFUSED and "log" in which)


def test_older_checkpoints_and_maps_beside_a_log_that_went_round_are_refused(disk):
    """Every group of the log is newer than what those could be gone on with."""
    rng = Random(4)
    store, ledger = opened(disk)
    store.checkpoint(ledger.snapshot())
    older = disk.after_crash(CrashEffect.KEPT)
    first = store._log.head
    while store._log.head < first + 3 * store._log.capacity:
        busy_turn(store, ledger, rng)
        store.sync()
        if store.checkpoint_due:
            store.checkpoint(ledger.snapshot())
    disk = disk.kill()
    disk.lose(LOCK_NAME)
    for name in (*NAMES, *MAP_NAMES):
        put_back(disk, older, name)
    with pytest.raises(StoreCorrupt) as raised:
        small_store(disk).recover(Ledger().load)
    assert raised.value.event == 2079


def test_a_damaged_newest_group_of_a_killed_store_is_refused(disk):
    store, ledger = opened(disk)
    for _ in range(3):
        busy_turn(store, ledger, Random(2))
        store.sync()
    killed = disk.kill()
    at = store._log.head % store._log.capacity
    newest = range(at - 1024, at, 16)
    refused = 0
    for offset in newest:
        copy = killed.after_crash(CrashEffect.KEPT)
        if not any(copy.image("QMLog")[offset : offset + 16]):
            continue
        copy.damage("QMLog", offset, bytes([copy.image("QMLog")[offset] ^ 1]))
        found = outcome(copy)
        assert found in (REFUSED, ledger.state())
        refused += found == REFUSED
    assert refused > 3


def test_the_newest_payload_of_a_killed_store_stays_and_is_named_when_a_bit_of_it_flips(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"older" * 100)
    ledger.end_turn(store)
    store.sync()
    ledger.put(store, 2, b"newest" * 500)
    ledger.end_turn(store)
    store.sync()
    killed = disk.kill()
    extent, _ = ledger.pieces[2]
    killed.damage("p0000001.mq", extent.offset + 3, b"?")
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert again.state() == ledger.state()
    assert (report.cut_groups, report.spoiled, report.quarantined) == (0, (extent,), ())
    assert report.lost == (Loss.UNREADABLE,)
    (notice,) = report.notices()
    assert "event 2083" in notice
    assert "p0000001.mq" in notice


def test_a_group_that_was_not_synced_is_not_cut_for_payload_that_was(disk):
    """The newest durable message is damaged, and a commit behind it was never ended."""
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    ledger.end_turn(store)
    store.sync()
    ledger.put(store, 2, b"begun" * 100)
    ledger.end_turn(store)
    store.begin_sync()
    killed = disk.kill()
    extent, _ = ledger.pieces[1]
    killed.damage("p0000001.mq", extent.offset + 3, b"?")
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert again.state() == ledger.state()
    assert report.cut_groups == 0


def test_a_missing_file_of_the_newest_payload_is_quarantine_and_cuts_nothing(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, bytes(4000))
    ledger.end_turn(store)
    store.sync()
    ledger.put(store, 2, b"x" * 4000)
    ledger.end_turn(store)
    store.sync()
    killed = disk.kill()
    extent, _ = ledger.pieces[2]
    killed.lose(f"p{extent.file:07d}.mq")
    again = Ledger()
    report = small_store(killed).recover(again.load)
    assert again.state() == ledger.state()
    assert (report.cut_groups, report.spoiled, report.quarantined) == (0, (), (extent,))


def test_a_group_whose_payload_a_power_failure_took_is_cut_and_said_to_be_in_doubt(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store.sync()
    ledger.put(store, 2, b"torn" * 100)
    ledger.end_turn(store)
    store.begin_sync()
    extent, _ = ledger.pieces[2]
    after = disk.crash(CrashEffect.KEPT)
    after.damage("p0000001.mq", extent.offset, bytes(extent.length))
    again = Ledger()
    report = small_store(after).recover(again.load)
    assert (again.turn, report.cut_groups, report.lost) == (1, 1, (Loss.CUT_OFF,))
    (notice,) = report.notices()
    assert "QMLog" in notice
    assert "in doubt" in notice


def test_a_group_that_a_power_failure_left_in_part_is_said_to_be_in_doubt(disk):
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store.sync()
    at = store._log.head
    for key in range(60):
        ledger.put(store, key, b"")
    ledger.end_turn(store)
    store.begin_sync()
    after = disk.crash(CrashEffect.KEPT)
    after.damage("QMLog", at + 512, bytes(512))
    again = Ledger()
    report = small_store(after).recover(again.load)
    assert (again.turn, report.cut_groups, report.unfinished) == (1, 0, True)
    assert report.lost == (Loss.CUT_OFF,)
    assert "in doubt" in report.notices()[0]
    assert small_store(after.crash(CrashEffect.KEPT)).recover(Ledger().load).lost == ()


def test_a_start_notes_durably_how_far_the_log_is_durable():
    disk = SimDisk(Random(1))
    opened(disk)
    noted = read_end(disk.after_crash(CrashEffect.LOST))
    assert noted == read_end(disk.after_crash(CrashEffect.KEPT))
    assert noted.lsn > 0


def test_a_seal_notes_the_end_of_the_log_in_a_second_file():
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told")
    ledger.end_turn(store)
    store.sync()
    before = read_end(disk).lsn
    store.seal()
    assert read_end(disk).lsn == before
    disk.lose(LOCK_NAME)
    assert read_end(disk).lsn == before
