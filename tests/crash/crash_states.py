"""Every state of a simulated disk in which a power failure may leave it, operation by operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from dray.testing.disk import CrashEffect, Operation, SimDisk


class CrashState(NamedTuple):
    """The disk after a power failure behind the first `done` operations of a recording."""

    done: int
    fate: CrashEffect
    disk: SimDisk


def crash_states(
    operations: Iterable[Operation],
    rng: Random,
    *,
    chances: int = 1,
    base: SimDisk | None = None,
) -> Iterator[CrashState]:
    """Fail the power after every operation of a recording, in every way worth distinguishing.

    After each: everything unsynced lost, everything kept, the last write torn, and `chances`
    random subsets with random tears. The recording began on `base`, which is left as it is, or on
    an empty disk.
    """
    disk = SimDisk(rng) if base is None else base.after_crash(CrashEffect.KEPT)
    effects = [
        CrashEffect.LOST,
        CrashEffect.KEPT,
        CrashEffect.TORN_LAST,
        *[CrashEffect.CHANCE] * chances,
    ]
    for done, operation in enumerate(operations, 1):
        do_again(operation, disk)
        for fate in effects:
            yield CrashState(done, fate, disk.after_crash(fate))


def do_again(operation: Operation, disk: SimDisk) -> None:
    """Do a recorded operation on another disk; a mark changes nothing."""
    match operation.verb:
        case "create":
            disk.open(operation.name)
        case "write":
            disk.open(operation.name).write(operation.data, operation.offset)
        case "resize":
            disk.open(operation.name).truncate(operation.offset)
        case "sync":
            disk.open(operation.name).sync()
        case "sync_directory":
            disk.sync_directory(operation.name)
        case "rename":
            disk.rename(operation.name, operation.other)
        case "remove":
            disk.remove(operation.name)
