"""Copies of heap bytes in the log: what a start puts back where the disk lost it.

A group with copies was synced without the heap files that it speaks of. So until the next
checkpoint has synced these, the log may be the only place that has their bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from dray.store.log.group import DirtyRange


class CopiedBytes(NamedTuple):
    """The bytes of a heap file from `start` to `stop`, which lie in the log from `lsn` on."""

    start: int
    stop: int
    lsn: int


class Copies:
    """All copies in a chain of groups, by heap file. Add them in the order of the log."""

    def __init__(self) -> None:
        self._by_file: dict[int, tuple[list[int], list[CopiedBytes]]] = {}

    @property
    def files(self) -> frozenset[int]:
        """The heap files that there are copies of."""
        return frozenset(self._by_file)

    def add(self, copied: DirtyRange, lsn: int) -> None:
        """Add a copy that begins at `lsn`.

        A heap file is written from its start to its end. So a copy makes those void that began at
        its start or beyond: they are of a time before the file, or its tail, was used again.
        """
        starts, copies = self._by_file.setdefault(copied.file, ([], []))
        void = bisect_left(starts, copied.start)
        del starts[void:], copies[void:]
        starts.append(copied.start)
        copies.append(CopiedBytes(copied.start, copied.stop, lsn))

    def lsn_of(self, copied: DirtyRange) -> int | None:
        """The place in the log of all the bytes of a part of a heap file; None if it lacks some."""
        starts, copies = self._by_file.get(copied.file, ((), ()))
        at = bisect_right(starts, copied.start) - 1
        if at < 0 or copies[at].stop < copied.stop:
            return None
        return copies[at].lsn + copied.start - copies[at].start
