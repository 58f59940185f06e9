"""Crash states of a whole queue manager, one after another, all from seeds.

A seed makes a workload (`storage_workload`), its recording has points (`crash_points`), and at each
point every combination of what was not synced is recovered and judged (`storage_check`). Some of
the disks found so go through a second run and fail again, during its start too.

    python -m dray.testing.torture SEED [STATES]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from dray.testing.crash_points import CrashPoint, crash_points
from dray.testing.harness import Sizes
from dray.testing.storage_check import check_recovered
from dray.testing.storage_model import Frozen, Known
from dray.testing.storage_recording import BEGUN, ENDED, Recording
from dray.testing.storage_workload import record_run

TURNS = 90
TURNS_OF_A_SECOND_RUN = 8
SECOND_RUNS = 0.002
"""Share of the crash states that live on."""
CHANCES = 2
QUEUE_FILES_EVERY = 4


@dataclass
class Tally:
    """The numbers of states and seeds so far."""

    seeds: int = 0
    states: int = 0
    second_states: int = 0
    points: int = 0
    older: int = 0
    """States that came back without the newest group begun, as they may."""


def torture_seed(
    seed: int, tally: Tally, *, states: int | None = None, every: int = 1
) -> Iterator[None]:
    """Go through the crash states of one seed, at most so many; yields after each.

    With `every` n, only at each nth point, so that many whole runs are looked at in a short time.

    Raises what was found, with a note of how to see it again.
    """
    rng = Random(seed)
    sizes = Sizes(queue_files=seed % QUEUE_FILES_EVERY == 0)
    stop = None if states is None else tally.states + states
    try:
        tally.seeds += 1
        recording = record_run(rng, TURNS, Recording(Known(), sizes))
        for _ in _each_state(recording, rng, tally, every, second=False):
            yield
            if stop is not None and tally.states >= stop:
                return
    except Exception as error:
        error.add_note(f"see it again: python -m dray.testing.torture {seed}")
        raise


def _each_state(
    recording: Recording, rng: Random, tally: Tally, every: int, *, second: bool
) -> Iterator[None]:
    turns = _Turns(recording)
    points = crash_points(recording.operations, recording.base)
    for point in islice(points, every // 2, None, every):
        tally.points += 1
        allowed = turns.allowed(point.done)
        for choice in point.choices(rng, chances=CHANCES):
            seed = rng.getrandbits(64)
            try:
                frozen = check_recovered(point.disk(choice, Random(seed)), recording, allowed)
            except Exception as error:
                error.add_note(f"behind {point.done} operations, with {choice} of {point.told}")
                raise
            tally.states += 1
            tally.second_states += second
            tally.older += frozen.turn < allowed[-1]
            yield
            if not second and rng.random() < SECOND_RUNS:
                again = _second_run(recording, point, frozen)
                again.base = point.disk(choice, Random(seed))
                record_run(rng, TURNS_OF_A_SECOND_RUN, again)
                yield from _each_state(again, rng, tally, every, second=True)


def _second_run(recording: Recording, point: CrashPoint, frozen: Frozen) -> Recording:
    done = point.done
    known = recording.known.as_of(frozen, recording.peer_at(done), recording.told_at(done))
    return Recording(known, recording.sizes, first=frozen)


class _Turns:
    """Follows the marks of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._operations = recording.operations
        self._done = 0
        self._ended = self._begun = min(recording.turns)

    def allowed(self, done: int) -> range:
        """The turns that may come back after a failure behind so many operations."""
        for operation in self._operations[self._done : done]:
            if operation.verb == "mark" and operation.name == BEGUN:
                self._begun = max(self._begun, operation.offset)
            elif operation.verb == "mark" and operation.name == ENDED:
                self._ended = max(self._ended, operation.offset)
        self._done = done
        return range(self._ended, self._begun + 1)


def main(seed: int, states: int | None) -> None:
    """Torture one seed."""
    tally = Tally()
    for _ in torture_seed(seed, tally, states=states):
        pass
    sys.stdout.write(f"{tally}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)  # noqa: PLR2004
