"""What each file of the store is worth before anything is touched: zeroed, cut, or of old."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreCorrupt
from dray.store.decisions import Act
from dray.store.heap.maps import MAP_NAMES
from dray.store.limits import CHECKPOINT_BYTES
from dray.store.log.checkpoint import NAMES, SEQUENCES, TRANSACTIONS, CheckpointState, examine
from dray.store.recovery.survey import survey
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import LOG_BYTES, Ledger, opened, small_store, used


def zero(disk: SimDisk, name: str) -> None:
    disk.damage(name, 0, bytes(len(disk.image(name))))


def images(disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.image(name) for name in disk.names() if name != "lock"}


@pytest.mark.parametrize("names", [TRANSACTIONS, SEQUENCES])
@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_a_pair_that_was_zeroed_in_place_is_refused_though_the_log_has_everything(
    names, checkpoints
):
    disk, _ = used(checkpoints=checkpoints)
    for name in names:
        zero(disk, name)
    before = images(disk)
    with pytest.raises(StoreCorrupt, match="both are damaged") as caught:
        small_store(disk).recover(Ledger().load)
    assert caught.value.event == (2064 if names == TRANSACTIONS else 2053)
    assert caught.value.file == " and ".join(names)
    assert images(disk) == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("checkpoints", "later"), [(0, False), (1, False), (2, False), (5, True)], ids=str
)
def test_one_that_was_zeroed_in_place_is_told_once_and_the_rest_starts(name, checkpoints, later):
    disk, before = used(checkpoints=checkpoints, later=later)
    zero(disk, name)
    store, ledger = opened(disk)
    assert store.report.notices() == [f"{name} is damaged and was not needed"]
    assert store.checkpoint_due
    assert ledger.state() == before.state()
    store, ledger = opened(disk.crash(CrashEffect.KEPT))
    assert (store.report.notices(), ledger.state()) == ([], before.state())


@pytest.mark.parametrize("names", [*[(name,) for name in NAMES], TRANSACTIONS, SEQUENCES, NAMES])
def test_one_that_was_cut_behind_its_content_is_used_and_told_until_it_is_written_again(names):
    disk, before = used(checkpoints=5, later=True)
    for name in names:
        _, mark = examine(disk, name)
        disk.cut_off(name, 512 + mark.length)
    store, ledger = opened(disk)
    told = [f"{name} was cut off, but has everything that counts" for name in names]
    assert store.report.notices() == told
    assert store.checkpoint_due
    assert ledger.state() == before.state()
    for _ in range(2):
        store.checkpoint(ledger.snapshot())
    store.close()
    store, ledger = opened(disk)
    assert (store.report.notices(), ledger.state()) == ([], before.state())


def test_a_store_that_was_there_before_is_not_begun_anew_in_its_emptied_folder(monkeypatch):
    disk = SimDisk(Random(1))
    opened(disk)
    for name in ("QMLog", *TRANSACTIONS):
        disk.lose(name)
    assert survey(disk).row.act is Act.FRESH
    monkeypatch.setattr(SimDisk, "had_store", lambda _: True)
    with pytest.raises(StoreCorrupt, match="QMLog") as refused:
        survey(disk)
    assert (refused.value.event, refused.value.file) == (2076, "QMLog")


def test_what_was_never_written_has_the_header_it_was_made_with():
    disk, _ = used(checkpoints=1)
    states = {name: examine(disk, name)[0] for name in NAMES}
    written, unused = CheckpointState.VALID, CheckpointState.UNUSED
    assert sorted(each.name for each in states.values()) == sorted(
        [written.name, written.name, unused.name, unused.name]
    )


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_bit_in_the_size_that_the_first_group_tells_is_refused_and_not_followed(bit):
    """The size may be anything then, also more than anybody could look through."""
    disk, _ = used(checkpoints=0, later=False)
    at = 32 + bit // 8
    disk.damage("QMLog", at, bytes([disk.image("QMLog")[at] ^ 1 << bit % 8]))
    with pytest.raises(StoreCorrupt) as caught:
        small_store(disk).recover(Ledger().load)
    assert (caught.value.event, caught.value.file) == (2064, "MQTrans.lg1 and MQTrans.lg2")


def test_the_first_group_tells_how_long_a_log_was_that_was_cut_before_any_checkpoint():
    disk, before = used(checkpoints=0, later=False)
    disk.cut_off("QMLog", LOG_BYTES - 1000)
    store, ledger = opened(disk)
    assert store.report.cut == ("QMLog",)
    assert ledger.state() == before.state()
    assert len(disk.image("QMLog")) == LOG_BYTES


@pytest.mark.parametrize("name", MAP_NAMES)
def test_a_map_that_lost_free_room_is_told_and_made_long_enough(name):
    disk, before = used(checkpoints=5, later=True)
    disk.cut_off(name, CHECKPOINT_BYTES - 1000)
    store, ledger = opened(disk)
    assert store.report.notices() == [f"{name} was cut off, but has everything that counts"]
    assert ledger.state() == before.state()
    assert len(disk.image(name)) == CHECKPOINT_BYTES
