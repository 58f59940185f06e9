"""The decision table: complete, without overlap, and true on a disk row by row."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from dray.errors import StoreCorrupt, StoreFull, StoreLocked
from dray.store.decisions import LOG_NAME, TABLE, Act, FoundState, LogState, Pair, decide
from dray.store.heap.maps import MAP_NAMES
from dray.store.kinds import file_name
from dray.store.log.checkpoint import (
    NAMES,
    SEQUENCES,
    TRANSACTIONS,
    CheckpointState,
    birth_mark,
    examine,
)
from dray.store.reading import ReadOnlyDisk
from dray.store.real_disk import RealDisk
from dray.store.recovery.recovery import Loss, doubts
from dray.store.recovery.survey import survey
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk, SimFile
from tests.unit.store.ledger import (
    HEAP_BYTES,
    LOG_BYTES,
    Ledger,
    busy_turn,
    opened,
    small_store,
    used,
)

LG1, LG2 = TRANSACTIONS
FINDINGS = [FoundState(*each) for each in product(Pair, Pair, LogState, (False, True))]
ON_A_DISK = list(product(Pair, Pair, LogState))


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_matches_exactly_one_row(finding):
    assert decide(finding) in TABLE


def test_every_row_is_matched_and_every_refusal_names_event_and_file():
    assert {decide(finding) for finding in FINDINGS} == set(TABLE)
    for row in TABLE:
        assert (row.act is Act.REFUSE) == bool(row.event) == bool(row.file) == bool(row.why)


# A store is brought into every finding there is, from one that was really used.


def spoil_pair(disk: SimDisk, names: tuple[str, ...], pair: Pair) -> None:
    for name in names:
        if pair is Pair.GONE:
            disk.lose(name)
        elif pair is Pair.NONE or (pair is Pair.TORN and name == names[1]):
            unused = birth_mark(name)
            disk.damage(name, 0, unused + bytes(len(disk.image(name)) - len(unused)))
        elif pair in {Pair.TORN, Pair.RUINED}:
            disk.damage(name, 520, b"\xff\xff\xff\xff")
            disk.damage(name, 0, b"????")


def spoil_log(disk: SimDisk, log: LogState) -> None:
    if log is LogState.ABSENT:
        disk.lose("QMLog")
    elif log is LogState.BLANK:
        disk.damage("QMLog", 0, bytes(LOG_BYTES))


def found(finding: FoundState) -> tuple[SimDisk, Ledger]:
    disk, ledger = used(checkpoints=2, later=finding.log is LogState.LATER)
    spoil_pair(disk, TRANSACTIONS, finding.transactions)
    spoil_pair(disk, SEQUENCES, finding.sequences)
    spoil_log(disk, finding.log)
    if not finding.heap:
        for name in disk.names():
            if name.startswith(("p", "j")):
                disk.lose(name)
    return disk, ledger


@pytest.mark.parametrize(("transactions", "sequences", "log"), ON_A_DISK)
def test_a_used_store_in_this_finding_does_what_the_row_says(transactions, sequences, log):
    finding = FoundState(transactions, sequences, log, heap=True)
    disk, before = found(finding)
    row = decide(finding)
    ledger = Ledger()
    store = small_store(disk)
    if row.act is Act.REFUSE:
        images = {name: disk.image(name) for name in disk.names()}
        with pytest.raises(StoreCorrupt) as raised:
            store.recover(ledger.load)
        assert (raised.value.event, raised.value.file) == (row.event, row.file)
        assert row.file in str(raised.value)
        left = {name: disk.image(name) for name in disk.names()}
        assert left == images
    else:
        assert store.recover(ledger.load).act is row.act
        assert ledger.state() == before.state()


@pytest.mark.parametrize(("transactions", "sequences", "log"), ON_A_DISK)
def test_a_store_without_message_files_in_this_finding_loses_nothing_silently(
    transactions, sequences, log
):
    finding = FoundState(transactions, sequences, log, heap=False)
    disk, _ = found(finding)
    row = decide(finding)
    ledger = Ledger()
    if row.act is Act.FRESH:
        assert small_store(disk).recover(ledger.load).act is Act.FRESH
        assert ledger.state() == (0, {}, 0)
    else:
        with pytest.raises(StoreCorrupt) as raised:
            small_store(disk).recover(ledger.load)
        assert raised.value.event == (row.event or 2083)


# ------------------------------------------------------------------------- beyond the table


def recovered(disk: SimDisk) -> Ledger:
    store, ledger = opened(disk)
    ledger.check(store)
    store.close()
    return ledger


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["damaged", "absent"])
def test_either_checkpoint_alone_is_enough(name, how):
    disk, before = used(checkpoints=5, later=True)
    if how == "damaged":
        disk.damage(name, 40, b"\xff")
    else:
        disk.lose(name)
    store, ledger = opened(disk)
    assert ledger.state() == before.state()
    ledger.check(store)


def test_a_damaged_checkpoint_is_reported_and_replaced_at_once():
    disk, before = used(checkpoints=5, later=True)
    disk.damage(LG1, 40, b"\xff")
    ledger = Ledger()
    store = small_store(disk)
    report = store.recover(ledger.load)
    assert report.damaged == (LG1,)
    assert report.checkpoint == LG2
    assert store.checkpoint_due
    store.checkpoint(ledger.snapshot())
    assert not store.checkpoint_due
    store.close()
    disk.damage(LG2, 40, b"\xff")
    assert recovered(disk).state() == before.state()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_checkpoint_is_told_by_name_and_replaced_at_once(name):
    disk, before = used(checkpoints=5, later=True)
    disk.lose(name)
    store, ledger = opened(disk)
    assert (store.report.damaged, store.report.missing) == ((), (name,))
    assert store.report.notices() == [f"{name} is missing and was not needed"]
    assert store.checkpoint_due
    store.checkpoint(ledger.snapshot())
    store.close()
    store, ledger = opened(disk)
    assert (store.report.notices(), ledger.state()) == ([], before.state())


@pytest.mark.parametrize("name", [*NAMES, *MAP_NAMES])
def test_a_file_that_is_missing_before_the_first_checkpoint_is_told_by_name(name):
    """All were made before the first group was written, so it was there; the log has everything."""
    disk, before = used(checkpoints=0, later=False)
    disk.lose(name)
    store, ledger = opened(disk)
    assert store.report.notices() == [f"{name} is missing and was not needed"]
    assert ledger.state() == before.state()
    store.checkpoint(ledger.snapshot())
    store.close()
    store, ledger = opened(disk)
    assert (store.report.notices(), ledger.state()) == ([], before.state())


@pytest.mark.parametrize("names", [TRANSACTIONS, SEQUENCES])
def test_the_only_written_file_of_a_pair_is_missed_by_name_and_the_log_has_it_all(names):
    disk, before = used(checkpoints=1, later=False)
    (written,) = (name for name in names if examine(disk, name)[0] is CheckpointState.VALID)
    disk.lose(written)
    store, ledger = opened(disk)
    assert store.report.notices() == [f"{written} is missing and was not needed"]
    assert ledger.state() == before.state()


def test_a_store_that_was_killed_while_it_was_made_misses_nothing():
    """At any of its writes, and within the headers, while no file but the log is needed yet."""
    for made in range(len(NAMES) + len(MAP_NAMES) + 1):
        for torn in range(0, 77, 4):
            disk = SimDisk(Random(1))
            disk.open("QMLog", size=LOG_BYTES).close()
            for name in (*NAMES, *MAP_NAMES)[:made]:
                disk.open(name).close()
            for name in NAMES[:made]:
                disk.open(name).write(birth_mark(name)[:torn], 0)
            store, _ = opened(disk)
            assert (store.report.act, store.report.notices()) == (Act.FRESH, [])


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_file_that_was_cut_to_nothing_is_damaged(name):
    disk, before = used(checkpoints=5, later=True)
    cut(disk, name)
    store, ledger = opened(disk)
    assert store.report.damaged == (name,)
    assert store.checkpoint_due
    assert ledger.state() == before.state()


@pytest.mark.parametrize("names", [TRANSACTIONS, SEQUENCES])
@pytest.mark.parametrize("how", ["cut", "gone", "cut and gone"])
def test_both_files_of_a_pair_lost_are_refused_though_the_log_has_everything(names, how):
    disk, _ = used(checkpoints=2, later=False)
    first, second = names
    (disk.lose if how == "gone" else partial(cut, disk))(first)
    (partial(cut, disk) if how == "cut" else disk.lose)(second)
    images = {name: disk.image(name) for name in disk.names() if name != "lock"}
    with pytest.raises(StoreCorrupt) as caught:
        small_store(disk).recover(Ledger().load)
    assert caught.value.event == (2064 if names == TRANSACTIONS else 2053)
    assert caught.value.file == " and ".join(names)
    assert {name: disk.image(name) for name in disk.names() if name != "lock"} == images


def cut(disk: SimDisk, name: str) -> None:
    """Leave nothing of a file but its name."""
    file = disk.open(name)
    file.truncate(0)
    file.sync()
    file.close()


@pytest.mark.parametrize("names", [TRANSACTIONS, SEQUENCES])
def test_two_damaged_files_of_a_pair_moved_away_by_people_are_rebuilt_from_the_log(names):
    """Asked for by people, and of a log that has everything from the store's first group on."""
    disk, before = used(checkpoints=2, later=False)
    for name in names:
        disk.damage(name, 0, b"????")
    with pytest.raises(StoreCorrupt, match="move both away and run `dray storage reb") as caught:
        small_store(disk).recover(Ledger().load)
    assert caught.value.event == (2064 if names == TRANSACTIONS else 2053)
    assert caught.value.file == " and ".join(names)
    for name in names:
        disk.lose(name)
    with pytest.raises(StoreCorrupt, match=r"bring them back.* or run `dray storage rebuild`"):
        small_store(disk).recover(Ledger().load)
    ledger = Ledger()
    store = small_store(disk, rebuild=True)
    assert store.recover(ledger.load).missing == names
    assert store.report.lost == (Loss.REBUILT,)
    assert ledger.state() == before.state()
    store.checkpoint(ledger.snapshot())
    store.close()
    assert recovered(disk).state() == before.state()


def test_recovery_that_refuses_gives_the_lock_back():
    disk, _ = found(FoundState(Pair.NONE, Pair.NONE, LogState.LATER, heap=True))
    for _ in range(2):
        with pytest.raises(StoreCorrupt):
            small_store(disk).recover(Ledger().load)


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("QMLog", 2076),
        (LG1, 2064),
        (LG2, 2064),
        ("MQInSeqs.lg1", 2053),
        ("MQInSeqs.lg2", 2053),
        ("p0000001.mq", 2083),
        ("j0000077.mq", 2083),
        ("l0000001.mq", 2083),
    ],
)
def test_a_folder_in_the_place_of_a_file_is_refused_by_name_and_stays(tmp_path, name, event):
    store, ledger = opened(RealDisk(tmp_path))
    busy_turn(store, ledger, Random(3))
    store.checkpoint(ledger.snapshot())
    store.close(ledger.snapshot())
    storage = tmp_path / "storage"
    if (storage / name).exists():
        (storage / name).rename(tmp_path / name)
    (storage / name).mkdir()
    (storage / name / "mine").write_text("keep")
    before = {path.name for path in storage.iterdir()}
    for look in (
        lambda: small_store(RealDisk(tmp_path)).recover(Ledger().load),
        lambda: survey(ReadOnlyDisk(tmp_path)),
    ):
        with pytest.raises(StoreCorrupt, match=f"event {event}: {name} .* move it away") as caught:
            look()
        assert (caught.value.event, caught.value.file) == (event, name)
    assert {path.name for path in storage.iterdir()} == before
    (storage / name).rename(tmp_path / "theirs")
    if (tmp_path / name).exists():
        (tmp_path / name).rename(storage / name)
    store, again = opened(RealDisk(tmp_path))
    store.close()
    assert again.state() == ledger.state()


def test_a_folder_of_another_name_is_nobodys_business(tmp_path):
    opened(RealDisk(tmp_path))[0].close()
    (tmp_path / "storage" / "lqs").mkdir()
    (tmp_path / "storage" / "notes").mkdir()
    opened(RealDisk(tmp_path))[0].close()


def test_a_disk_in_use_is_refused():
    disk = SimDisk(Random(1))
    opened(disk)
    with pytest.raises(StoreLocked):
        small_store(disk).recover(Ledger().load)


@pytest.mark.parametrize(("state", "sequences"), list(product(TRANSACTIONS, SEQUENCES)))
@pytest.mark.parametrize("how", ["damaged", "absent"])
def test_one_file_of_each_pair_may_be_gone_at_the_same_time(state, sequences, how):
    disk, before = used(checkpoints=5, later=True)
    for name in (state, sequences):
        if how == "damaged":
            disk.damage(name, 40, b"\xff")
        else:
            disk.lose(name)
    store, ledger = opened(disk)
    assert ledger.state() == before.state()
    ledger.check(store)
    assert store.checkpoint_due
    store.checkpoint(ledger.snapshot())
    store.sync()
    for name in ({*TRANSACTIONS} - {state}) | ({*SEQUENCES} - {sequences}):
        disk.damage(name, 40, b"\xff")
    assert opened(disk.crash(CrashEffect.KEPT))[1].state() == before.state()


def test_halves_of_different_age_each_get_the_facts_after_their_own_mark():
    disk, before = used(checkpoints=5, later=True)
    examined = {name: int.from_bytes(disk.image(name)[8:16], "little") for name in NAMES}
    newest = max(examined.values())
    for name, generation in examined.items():
        if (generation == newest) == (name in TRANSACTIONS):
            disk.lose(name)
    store, ledger = opened(disk)
    report = store.report
    assert examined[report.checkpoint] != examined[report.sequences]
    assert ledger.state() == before.state()


def with_facts_in_checkpoints_only():
    """A store whose newest checkpoint took the facts that did not fit the log."""
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    for turn in range(3):
        ledger.put(store, turn, b"x")
        ledger.end_turn(store)
        store.sync()
        store.checkpoint(ledger.snapshot())
    while store._log.fits(0):
        ledger.put(store, 1000 + len(ledger.pieces), b"y")
    store.checkpoint(ledger.snapshot())
    return disk, store, ledger


def test_halves_that_no_log_joins_are_refused():
    """The newest of one pair and the oldest of the other are left, and the log between is not."""
    disk, store, _ = with_facts_in_checkpoints_only()
    after = disk.crash(CrashEffect.LOST)
    newest = store._pairs.newest.name
    older_sequences = next(
        name for name in SEQUENCES if name != store._pairs._newest[SEQUENCES].name
    )
    for name in NAMES:
        if name not in {newest, older_sequences}:
            after.lose(name)
    with pytest.raises(StoreCorrupt) as raised:
        small_store(after).recover(Ledger().load)
    assert raised.value.event == 2078
    assert {*raised.value.file.split(" and ")} == {newest, older_sequences}


def test_a_log_that_ends_before_a_checkpoint_was_written_is_damaged():
    disk, _ = used(checkpoints=2, later=False)
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store.sync()
    lsn = store._log.head
    ledger.end_turn(store)
    store.checkpoint(ledger.snapshot())
    generation = store._pairs.newest.generation
    disk = disk.crash(CrashEffect.KEPT)
    for name in NAMES:
        if int.from_bytes(disk.image(name)[8:16], "little") == generation and name in SEQUENCES:
            disk.damage(name, 40, b"\xff")
    disk.damage("QMLog", lsn % LOG_BYTES, bytes(512))
    with pytest.raises(StoreCorrupt) as raised:
        small_store(disk).recover(Ledger().load)
    assert (raised.value.event, raised.value.file) == (2079, "QMLog")


# --------------------------------------------------------------------------------- quarantine


def many_files() -> tuple[SimDisk, Ledger]:
    disk = SimDisk(Random(6))
    store, ledger = opened(disk)
    for key in range(9):
        ledger.put(store, key, Random(key).randbytes(3000))
    ledger.end_turn(store)
    store.sync()
    store.close()
    return disk, ledger


def test_messages_in_a_missing_file_are_put_aside_by_name_and_the_rest_starts():
    disk, before = many_files()
    lost = before.pieces[4][0]
    disk.lose(file_name(lost.file))
    store, ledger = opened(disk)
    assert store.report.quarantined == (lost,)
    assert store.report.lost == (Loss.UNREADABLE,)
    assert "2083" in store.report.notices()[0]
    assert file_name(lost.file) in store.report.notices()[0]
    assert ledger.state() == before.state()
    for key, (extent, _) in ledger.pieces.items():
        if key == 4:
            with pytest.raises(StoreCorrupt):
                store.read(extent)
        else:
            assert len(store.read(extent)) == 3000
    assert not disk.exists(file_name(lost.file))


@pytest.mark.parametrize("lost_key", [0, 4])
def test_what_was_put_aside_is_there_again_when_its_file_is(lost_key):
    disk, before = many_files()
    lost = before.pieces[lost_key][0]
    image = disk.image(file_name(lost.file))
    disk.lose(file_name(lost.file))
    store, ledger = opened(disk)
    for key in range(100, 110):
        ledger.put(store, key, b"later" * 200)
    ledger.end_turn(store)
    store.sync()
    store.close()
    disk.open(file_name(lost.file)).write(image, 0)
    store, ledger = opened(disk)
    assert store.report.quarantined == ()
    ledger.check(store)


@pytest.mark.parametrize("lost_key", [0, 4])
def test_a_file_that_was_cut_off_is_not_written_to_again(lost_key):
    """Neither one of the first, which a start opens for payload, nor another."""
    disk, before = many_files()
    lost = before.pieces[lost_key][0]
    disk.cut_off(file_name(lost.file), lost.offset + 10)
    store, ledger = opened(disk)
    assert lost in store.report.quarantined
    for key in range(100, 130):
        ledger.put(store, key, bytes(900))
        assert ledger.pieces[key][0].file != lost.file
    ledger.take(store, lost_key)
    store.sync()
    assert lost.file not in {each[0].file for each in ledger.pieces.values()}


def test_the_place_of_what_was_put_aside_is_forgotten_once_nothing_names_it():
    disk, before = many_files()
    lost = before.pieces[4][0]
    disk.lose(file_name(lost.file))
    store, ledger = opened(disk)
    ledger.take(store, 4)
    ledger.end_turn(store)
    store.sync()
    assert small_store(disk.crash(CrashEffect.LOST)).recover(Ledger().load).quarantined == ()


def test_a_store_whose_message_files_are_all_missing_refuses_and_touches_nothing():
    disk, before = many_files()
    names = sorted({file_name(extent.file) for extent, _ in before.pieces.values()})
    for name in names:
        disk.lose(name)
    images = {each: disk.image(each) for each in disk.names()}
    with pytest.raises(StoreCorrupt) as raised:
        small_store(disk).recover(Ledger().load)
    assert (raised.value.event, raised.value.file) == (2083, names[0])
    assert {each: disk.image(each) for each in disk.names()} == images


def test_a_suspect_that_cannot_be_read_is_kept_and_put_aside(monkeypatch):
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    ledger.end_turn(store)
    store.begin_sync()
    after = disk.crash(CrashEffect.KEPT)
    extent, _ = ledger.pieces[1]
    after.make_unreadable(file_name(extent.file))
    store = small_store(after)
    again = Ledger()
    report = store.recover(again.load)
    assert report.quarantined == (extent,)
    assert again.state() == ledger.state()


# -------------------------------------------------------------------------------------- groups


def test_a_group_whose_heap_bytes_did_not_arrive_is_cut_and_load_called_again():
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    ledger.end_turn(store)
    store.sync()
    ledger.put(store, 2, b"torn" * 600)
    ledger.end_turn(store)
    assert store.begin_sync() is not None
    extent, _ = ledger.pieces[2]
    after = disk.crash(CrashEffect.KEPT)
    after.damage(f"p{extent.file:07d}.mq", extent.offset + 3, b"?")
    again = Ledger()
    store = small_store(after)
    report = store.recover(again.load)
    assert (report.cut_groups, again.loads) == (1, 2)
    assert report.lost == (Loss.CUT_OFF,)
    assert report.verified_extents > 0
    assert again.turn == 1
    assert again.pieces.keys() == {1}


def test_bytes_that_were_durable_are_not_read_again_at_the_next_start():
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    store.sync()
    store.close()
    report = small_store(disk).recover(Ledger().load)
    assert report.verified_extents == 0
    assert report.lost == ()


def test_a_fact_in_a_new_store_without_payload_outlives_a_power_failure():
    """No heap file was made, whose name would take those of the other files with it."""
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store.sync()
    _, again = opened(disk.crash(CrashEffect.LOST))
    assert again.turn == 1


def test_bytes_beside_those_in_doubt_are_not_read():
    """Of three neighbours in one file only the second is in doubt, and is too long for a copy."""
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    store.sync()
    ledger.put(store, 2, b"said" * 600)
    assert store.begin_sync() is not None
    beside, crc = store.place(b"more" * 100), crc32c(b"more" * 100)
    extents = [ledger.pieces[1][0], ledger.pieces[2][0], beside]
    assert [each.offset for each in extents] == [0, 400, 2800]
    after = disk.crash(CrashEffect.KEPT)
    for extent in (extents[0], beside):
        after.damage(file_name(extent.file), extent.offset, b"?")
    again = Ledger()
    report = small_store(after).recover(lambda history: [*again.load(history), (beside, crc)])
    assert (report.verified_extents, report.cut_groups, report.spoiled) == (1, 0, ())


def test_an_extent_over_several_verification_pieces_is_verified(monkeypatch):
    monkeypatch.setattr("dray.store.recovery.recovery.LOG_SCAN_BYTES", 100)
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.put(store, 1, Random(2).randbytes(950))
    ledger.put(store, 2, b"")
    ledger.put(store, 3, Random(3).randbytes(HEAP_BYTES))
    store.begin_sync()
    again = Ledger()
    report = small_store(disk.crash(CrashEffect.KEPT)).recover(again.load)
    assert report.verified_extents == 2
    assert again.state() == ledger.state()


def test_facts_that_only_a_ruined_checkpoint_had_are_missed_aloud():
    """The group did not fit, the checkpoint took its facts, and the power failed in between."""
    disk, store, ledger = with_facts_in_checkpoints_only()
    state = ledger.state()
    after = disk.crash(CrashEffect.LOST)
    store, again = opened(after.after_crash(CrashEffect.KEPT))
    assert again.state() == state
    assert store.checkpoint_due
    again.end_turn(store)
    store.checkpoint(again.snapshot())
    store.sync()
    store, again = opened(after)
    again.end_turn(store)
    store.sync()
    newest = store._pairs.newest.name
    after = after.crash(CrashEffect.LOST)
    after.damage(newest, 40, b"\xff")
    with pytest.raises(StoreCorrupt) as raised:
        small_store(after).recover(Ledger().load)
    assert (raised.value.event, raised.value.file) == (2064, newest)


def test_a_gap_without_a_ruined_checkpoint_is_the_logs_fault():
    disk = SimDisk(Random(1))
    store, ledger = opened(disk)
    ledger.end_turn(store)
    store._log.next_fact += 5
    store.sync()
    store.close()
    with pytest.raises(StoreCorrupt) as raised:
        small_store(disk).recover(Ledger().load)
    assert (raised.value.event, raised.value.file) == (2079, "QMLog")


def test_a_store_keeps_the_log_it_was_made_with():
    disk, before = used(checkpoints=2, later=True)
    from dray.store.store import Store

    ledger = Ledger()
    store = Store(disk, heap_file_bytes=HEAP_BYTES, log_bytes=4 * LOG_BYTES)
    store.recover(ledger.load)
    assert ledger.state() == before.state()
    assert store._log.capacity == LOG_BYTES


def test_the_page_tells_every_row_in_its_place():
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "recovery.md").read_text()
    _, _, rows = page.partition("| MQTrans | MQInSeqs | QMLog |")
    told = [line.rstrip(" |").rpartition(" | ")[2] for line in rows.split("\n\n")[0].splitlines()]
    assert told[2:] == [
        f"refuse, {row.event} {row.file.split('.')[0]}: {row.why}" if row.event else row.act.value
        for row in TABLE
    ]


def test_a_log_that_was_just_made_is_not_searched(monkeypatch):
    read = []
    read_into = SimFile.read_into

    def counted(file, view, offset):
        if file.name == LOG_NAME:
            read.append(len(view))
        return read_into(file, view, offset)

    monkeypatch.setattr(SimFile, "read_into", counted)
    disk, size = SimDisk(Random(1)), 8 << 20
    for searched in (False, True):
        read.clear()
        store = Store(disk, heap_file_bytes=HEAP_BYTES, log_bytes=size)
        store.recover(Ledger().load)
        # Any other start looks for groups that are behind a damaged one.
        assert (sum(read) >= size) is searched
        disk = disk.kill()


@pytest.mark.parametrize(("count", "groups"), [(1, "the newest group"), (2, "the newest 2 groups")])
def test_groups_that_are_cut_off_are_counted_in_words(count, groups):
    (sentence,) = doubts(count, unfinished=False)
    assert sentence.startswith(f"{groups} of facts cannot be used, because")


def test_a_checkpoint_that_is_written_after_a_start_is_newer_than_those_before():
    disk, _ = used(checkpoints=3)
    store, ledger = opened(disk)
    store.checkpoint(ledger.snapshot())
    ledger.end_turn(store)
    store.sync()
    again, after = opened(disk.kill())
    assert after.state() == ledger.state()
    assert (again.report.groups, again.report.facts) == (1, 1)


def fill_the_log(store: Store, ledger: Ledger) -> int:
    """The last turn that found room without a checkpoint."""
    while store.counters.log_bytes < 2 * LOG_BYTES:
        ledger.end_turn(store)
        try:
            store.sync()
        except StoreFull:
            return ledger.turn - 1
    raise AssertionError("the log was overwritten")


def test_the_log_is_kept_from_its_beginning_until_there_are_two_checkpoints():
    disk, _ = used(checkpoints=1)
    store, ledger = opened(disk)
    told = fill_the_log(store, ledger)
    disk = disk.kill()
    for name in NAMES:
        if examine(disk, name)[0] is CheckpointState.VALID:
            disk.damage(name, 0, b"????")
    _, again = opened(disk)
    assert again.turn == told


def test_the_log_is_kept_from_the_older_checkpoints_after_a_start_too():
    disk, _ = used(checkpoints=2, later=True)
    generations = {name: mark.generation for name in NAMES for _, mark in [examine(disk, name)]}
    store, ledger = opened(disk)
    told = fill_the_log(store, ledger)
    disk = disk.kill()
    for name, generation in generations.items():
        if generation == max(generations.values()):
            disk.damage(name, 0, b"????")
    _, again = opened(disk)
    assert again.turn == told


def test_a_start_whose_older_checkpoints_are_damaged_goes_on_from_the_newest():
    disk, before = used(checkpoints=2, later=True)
    generations = {name: mark.generation for name in NAMES for _, mark in [examine(disk, name)]}
    for name, generation in generations.items():
        if generation < max(generations.values()):
            disk.damage(name, 0, b"????")
    store, ledger = opened(disk)
    assert ledger.state() == before.state()
    ledger.end_turn(store)
    store.sync()
    assert opened(disk.kill())[1].state() == ledger.state()
