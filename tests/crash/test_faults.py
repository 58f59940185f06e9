"""A disk that is full after any number of bytes, or fails at any sync or write: the store reopens.

The workload goes on as far as it can. What was told before the fault is there afterwards, and the
state is exactly that of one turn.
"""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreFull, StorePoisoned
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import Ledger, busy_turn, opened, small_store

pytestmark = pytest.mark.slow

TURNS = 60


class Run:
    """A workload that survives refusals and ends with the first failure."""

    def __init__(self, disk: SimDisk, rng: Random) -> None:
        self.states = {}
        self.told = 0
        self.refused = 0
        self.store, self.ledger = opened(disk)
        self._rng = rng
        self._note()

    def _note(self) -> None:
        self.states[self.ledger.turn] = self.ledger.state()

    def go(self) -> None:
        for _ in range(TURNS):
            try:
                busy_turn(self.store, self.ledger, self._rng)
            except StoreFull:
                self.refused += 1
                self.ledger.end_turn(self.store)
            self._note()
            turn = self.ledger.turn
            try:
                if self.store.checkpoint_due or self._rng.random() < 0.1:
                    self.store.checkpoint(self.ledger.snapshot())
                self.store.sync()
            except StoreFull:
                self.refused += 1
                continue
            self.told = turn
        self.store.close()

    def check(self, disk: SimDisk) -> None:
        ledger = Ledger()
        store = small_store(disk)
        store.recover(ledger.load)
        assert ledger.turn >= self.told
        assert ledger.state() == self.states[ledger.turn]
        ledger.check(store)
        ledger.put(store, 0, b"goes on")
        ledger.end_turn(store)
        store.checkpoint(ledger.snapshot())
        store.sync()
        ledger.check(store)


def made() -> SimDisk:
    disk = SimDisk(Random(1))
    opened(disk)[0].close()
    return disk


@pytest.mark.parametrize("fate", [CrashEffect.LOST, CrashEffect.KEPT, CrashEffect.CHANCE])
def test_a_disk_full_after_any_number_of_bytes_leaves_a_store_that_reopens_whole(fate):
    base = made()
    refusals = 0
    for room in range(0, 60_000, 211):
        disk = base.after_crash(CrashEffect.KEPT)
        disk.full_after(room)
        run = Run(disk, Random(room))
        run.go()
        refusals += run.refused
        after = disk.crash(fate)
        after.full_after(1 << 30)
        run.check(after)
    assert refusals > 100


@pytest.mark.parametrize("kind", ["fail_sync", "fail_write"])
@pytest.mark.parametrize("fate", [CrashEffect.LOST, CrashEffect.KEPT, CrashEffect.CHANCE])
def test_a_disk_that_fails_once_anywhere_leaves_a_store_that_reopens_whole(kind, fate):
    base = made()
    failures = 0
    for nth in range(1, 260):
        disk = base.after_crash(CrashEffect.KEPT)
        run = Run(disk, Random(nth))
        getattr(disk, kind)(nth)
        try:
            run.go()
        except StorePoisoned:
            failures += 1
            run.store.append(b"turn 1000000")
            with pytest.raises(StorePoisoned):
                run.store.sync()
        run.check(disk.crash(fate))
    assert failures > 100


@pytest.mark.parametrize("fate", [CrashEffect.LOST, CrashEffect.KEPT, CrashEffect.CHANCE])
def test_a_recovery_that_is_refused_room_or_fails_can_be_tried_again(fate):
    base = made()
    run = Run(base, Random(3))
    run.go()
    crashed = base.after_crash(CrashEffect.KEPT)
    for nth in range(1, 12):
        disk = crashed.after_crash(CrashEffect.KEPT)
        disk.fail_sync(nth)
        try:
            small_store(disk).recover(Ledger().load)
        except StorePoisoned:
            run.check(disk.crash(fate))
    disk = crashed.after_crash(CrashEffect.KEPT)
    for name in disk.names():
        if name.startswith("l"):
            disk.lose(name)
    disk.full_after(100)
    with pytest.raises(StoreFull):
        small_store(disk).recover(Ledger().load)
    disk.full_after(1 << 30)
    run.check(disk.crash(fate))
