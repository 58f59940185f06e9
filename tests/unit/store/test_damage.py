"""Flipped bytes, zeroed sectors and cuts in every region of the log and of the checkpoints.

Whatever is damaged, a store starts with exactly what was told, or refuses by name. The one older
state that may come back is that of a last group which nothing later vouches for: it cannot be told
from a torn one. A seal, written whenever the store is quiet, ends that doubt, and so does the note
of each sync, unless a power failure takes it.
"""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreCorrupt
from dray.store.log.checkpoint import NAMES
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import LOG_BYTES, Ledger, busy_turn, opened, small_store


def used(*, wraps: bool, sealed: bool) -> tuple[SimDisk, Ledger]:
    rng = Random(11)
    disk = SimDisk(rng)
    store, ledger = opened(disk)
    head = 3 * LOG_BYTES if wraps else LOG_BYTES // 2
    while store._log.head < max(head, store._pairs.newest.lsn + 3000):
        busy_turn(store, ledger, rng)
        if store.checkpoint_due:
            store.checkpoint(ledger.snapshot())
        store.sync()
    if sealed:
        store.close()
    return disk.crash(CrashEffect.KEPT), ledger


def outcome(disk: SimDisk) -> tuple[object, int]:
    """The state recovered, or None and the event of the refusal."""
    ledger = Ledger()
    store = small_store(disk)
    try:
        store.recover(ledger.load)
    except StoreCorrupt as error:
        return None, error.event if error.file in str(error) else 0
    ledger.check(store)
    return ledger.state(), 0


def damages(name: str, size: int, rng: Random):
    """One flipped bit in each 61 bytes, zeroed sectors, and random bytes over a sector."""
    for offset in range(0, size, 61):
        yield name, offset, None
    for offset in range(0, size, 512):
        yield name, offset, bytes(512)
        yield name, offset, rng.randbytes(512)


def apply(disk: SimDisk, name: str, offset: int, data: bytes | None) -> None:
    if data is None:
        data = bytes([disk.image(name)[offset] ^ 1])
    disk.damage(name, offset, data)


@pytest.mark.slow
@pytest.mark.parametrize(("wraps", "sealed"), [(False, True), (True, True), (True, False)])
def test_a_damaged_log_with_a_seal_or_a_note_of_its_newest_sync_starts_whole_or_refuses(
    wraps, sealed
):
    disk, told = used(wraps=wraps, sealed=sealed)
    refused = 0
    for damage in damages("QMLog", LOG_BYTES, Random(1 if sealed else 2)):
        copy = disk.after_crash(CrashEffect.KEPT)
        apply(copy, *damage)
        state, event = outcome(copy)
        assert state == told.state() or event == 2079, damage
        refused += event == 2079
    assert refused > 10


@pytest.mark.slow
@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("page", [4096, 1 << 20])
def test_a_hit_that_takes_the_last_groups_and_their_seal_refuses(wraps, page):
    disk, told = used(wraps=wraps, sealed=True)
    refused = 0
    for start in range(0, LOG_BYTES, 512):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage("QMLog", start, bytes(min(page, LOG_BYTES - start)))
        state, event = outcome(copy)
        assert state == told.state() or event in {2064, 2076, 2079}, start
        refused += event == 2079
    assert refused > 2


@pytest.mark.slow
def test_a_damaged_log_loses_at_most_the_group_of_which_a_power_failure_took_seal_and_note():
    disk, told = used(wraps=True, sealed=False)
    disk.lose("lock")
    older = 0
    for damage in damages("QMLog", LOG_BYTES, Random(2)):
        copy = disk.after_crash(CrashEffect.KEPT)
        apply(copy, *damage)
        state, event = outcome(copy)
        if state is not None and state != told.state():
            assert state[0] == told.turn - 1
            older += 1
        assert state is not None or event == 2079
    assert 0 < older < 30


@pytest.mark.slow
@pytest.mark.parametrize("wraps", [False, True])
def test_a_log_cut_anywhere_starts_whole_or_refuses(wraps):
    disk, told = used(wraps=wraps, sealed=True)
    outcomes = set()
    for size in [*range(0, LOG_BYTES, 97), *range(0, LOG_BYTES, 512), LOG_BYTES - 1]:
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.cut_off("QMLog", size)
        state, event = outcome(copy)
        assert state == told.state() or event in {2064, 2076, 2079}, size
        outcomes.add(event)
    assert outcomes >= {0, 2079}


def test_a_log_whose_free_end_was_cut_is_reported_and_made_whole_again():
    disk, told = used(wraps=False, sealed=True)
    disk.cut_off("QMLog", LOG_BYTES - 1000)
    ledger = Ledger()
    store = small_store(disk)
    assert store.recover(ledger.load).cut == ("QMLog",)
    assert ledger.state() == told.state()
    assert disk.open("QMLog").size() == LOG_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wraps", [False, True])
def test_one_damaged_checkpoint_changes_nothing(name, wraps):
    disk, told = used(wraps=wraps, sealed=True)
    size = len(disk.image(name).rstrip(b"\0"))
    for damage in damages(name, size, Random(3)):
        copy = disk.after_crash(CrashEffect.KEPT)
        apply(copy, *damage)
        assert outcome(copy) == (told.state(), 0), damage
    for cut in range(0, size, 13):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.cut_off(name, cut)
        assert outcome(copy) == (told.state(), 0), cut


def test_two_damaged_checkpoints_refuse_when_the_log_has_wrapped():
    disk, _ = used(wraps=True, sealed=True)
    for name in NAMES:
        apply(disk, name, 40, None)
    assert outcome(disk) == (None, 2064)


@pytest.mark.slow
def test_a_log_and_a_checkpoint_damaged_together_never_give_a_wrong_state():
    disk, told = used(wraps=True, sealed=True)
    rng = Random(4)
    for _ in range(400):
        copy = disk.after_crash(CrashEffect.KEPT)
        apply(copy, rng.choice(NAMES), rng.randrange(700), None)
        apply(copy, "QMLog", rng.randrange(LOG_BYTES), None)
        state, event = outcome(copy)
        assert state == told.state() or event in {2064, 2079}
