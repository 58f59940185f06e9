"""A workload whose every disk operation is recorded, and what must hold wherever it is cut.

The recording carries marks: `begun n` when the group of turn n may be in the log, `ended n` when
its sync has ended and somebody may have been told. After a power failure anywhere the recovered
state must be exactly that of one turn, not older than the last one ended, not newer than the last
one begun.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from crc32c import crc32c

from dray.errors import StoreCorrupt
from dray.store.decisions import LOG_DAMAGED, LOG_LOST
from dray.store.log.checkpoint import PAIRS
from dray.store.recovery.recovery import Loss
from dray.testing.disk import CrashEffect, Operation, SimDisk
from dray.testing.storage_recording import BEGUN, ENDED
from dray.testing.storage_syncs import StoreSyncs
from tests.crash.crash_states import CrashState, crash_states, do_again
from tests.unit.store.ledger import Ledger, busy_turn, small_store

CHECKPOINTS = 0.1


@dataclass
class Recording:
    """What was done to the disk, and the state after each turn."""

    base: SimDisk | None = None
    first_turn: int = 0
    operations: list[Operation] = field(default_factory=list)
    states: dict[int, object] = field(default_factory=dict)


@dataclass
class Findings:
    """How many crash states were looked at, and what recovery did with them."""

    crashes: int = 0
    cut_groups: int = 0
    acts: Counter[str] = field(default_factory=Counter)


class Workload:
    """Drives one store, with syncs and checkpoints that overlap as those of threads do."""

    def __init__(self, rng: Random, disk: SimDisk, recording: Recording) -> None:
        self._rng = rng
        self._disk = disk.recorded(recording.operations)
        self._recording = recording
        self._store = small_store(disk)
        self._ledger = Ledger()
        self._syncs = StoreSyncs(
            rng, self._store, self._ledger.snapshot, self._ended, checkpoints=CHECKPOINTS
        )
        self._store.recover(self._ledger.load)
        self._note()

    def run(self, turns: int) -> None:
        for _ in range(turns):
            busy_turn(self._store, self._ledger, self._rng)
            self._note()
            if self._syncs.wants_checkpoint:
                self._mark(BEGUN, self._ledger.turn)
                self._syncs.begin_checkpoint(self._ledger.turn)
            self._mark(BEGUN, self._ledger.turn)
            self._syncs.begin(self._ledger.turn)
            self._syncs.go_on()
        self._syncs.end_everything()

    def close(self) -> None:
        turn = self._ledger.turn
        self._store.close(self._ledger.snapshot() if self._rng.randrange(2) else None)
        self._mark(ENDED, turn)

    def _note(self) -> None:
        self._recording.states[self._ledger.turn] = self._ledger.state()

    def _mark(self, what: str, turn: int) -> None:
        self._disk.record(Operation("mark", what, turn))

    def _ended(self, turn: int) -> None:
        self._mark(ENDED, turn)
        self._ledger.check(self._store)


def recorded_workload(rng: Random, turns: int, base: SimDisk | None = None) -> Recording:
    """Work on a copy of `base`, or on an empty disk."""
    recording = Recording(base)
    disk = SimDisk(rng) if base is None else base.after_crash(CrashEffect.KEPT)
    workload = Workload(rng, disk, recording)
    recording.first_turn = min(recording.states)
    workload.run(turns)
    workload.close()
    return recording


def check_every_crash(recording: Recording, rng: Random, findings: Findings, **how) -> None:
    """Recover from every crash state of the recording and hold the outcome against the marks."""
    ended = begun = recording.first_turn
    operations = iter(recording.operations)
    done = 0
    for state in crash_states(recording.operations, rng, base=recording.base, **how):
        while done < state.done:
            operation = next(operations)
            done += 1
            if operation.verb == "mark" and operation.name == BEGUN:
                begun = max(begun, operation.offset)
            elif operation.verb == "mark":
                ended = max(ended, operation.offset)
        check_crash(state, recording, range(ended, begun + 1), findings)


def check_crash(
    state: CrashState, recording: Recording, allowed: range, findings: Findings
) -> None:
    ledger = Ledger()
    store = small_store(state.disk)
    report = store.recover(ledger.load)
    assert ledger.turn in allowed, (state.done, state.fate, report)
    assert ledger.state() == recording.states[ledger.turn], (state.done, state.fate, report)
    assert (report.missing, report.cut) == ((), ()), (state.done, state.fate, report)
    damaged = set(report.damaged)
    assert all(len(damaged.intersection(pair)) <= 1 for pair in PAIRS), report
    assert (report.spoiled, report.quarantined) == ((), ()), (state.done, state.fate, report)
    ledger.check(store)
    findings.crashes += 1
    findings.cut_groups += report.cut_groups
    findings.acts[report.act.name] += 1


def flip_what_is_newest(recording: Recording, rng: Random, *, chances: int) -> Counter[str]:
    """Kill the process behind every operation, and flip a bit of the newest payload or groups.

    A killed process leaves everything that it wrote. So nothing that was told may be missing, and
    the damage is refused or named. Gives how often which of it came of that.
    """
    disk = SimDisk(rng) if recording.base is None else recording.base.after_crash(CrashEffect.KEPT)
    ended = begun = recording.first_turn
    came: Counter[str] = Counter()
    newest: dict[str, tuple[str, range]] = {}
    for operation in recording.operations:
        if operation.verb == "mark" and operation.name == BEGUN:
            begun = max(begun, operation.offset)
        elif operation.verb == "mark":
            ended = max(ended, operation.offset)
        else:
            do_again(operation, disk)
            if operation.name.startswith(("p", "j", "QMLog")) and any(operation.data):
                place = range(operation.offset, operation.offset + len(operation.data))
                newest[operation.name[0]] = operation.name, place
        told_now = operation.verb == "mark" and operation.name == ENDED
        for _ in range(chances * (4 if told_now else 1) if newest else 0):
            name, place = rng.choice(list(newest.values()))
            offset = rng.choice(place)
            flipped = disk.after_crash(CrashEffect.KEPT)
            bit = bytes([flipped.image(name)[offset] ^ 1 << rng.randrange(8)])
            flipped.damage(name, offset, bit)
            came[_outcome_of_a_flip(flipped, recording, range(ended, begun + 1))] += 1
    return came


def _outcome_of_a_flip(disk: SimDisk, recording: Recording, allowed: range) -> str:
    ledger = Ledger()
    store = small_store(disk)
    try:
        report = store.recover(ledger.load)
    except StoreCorrupt as error:
        if error.event not in {LOG_LOST, LOG_DAMAGED}:
            raise
        return "refused"
    assert ledger.turn in allowed, (allowed, report)
    assert ledger.state() == recording.states[ledger.turn], report
    misfit = [extent for extent, crc in ledger.pieces.values() if crc32c(store.read(extent)) != crc]
    if ledger.turn < allowed[-1] and report.cut_groups:
        assert Loss.CUT_OFF in report.lost
        return "cut off, in doubt"
    return "named" if report.spoiled else "found when it is read" if misfit else "nothing"
