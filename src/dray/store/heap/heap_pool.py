"""The heap files of one kind: which take new extents, which wait to be written again.

A few files are open at a time, and the one whose room fits best takes the next extent, so that
small messages fill the tails that fragments leave. Free ones are recycled, lowest number first.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.store.heap.heap_file import HeapFile
from dray.store.kinds import NUMBER_MAX, Kind, heap_file_number, kind_of


class HeapPool:
    """The heap files of one kind that take new extents, and those that wait to."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.open: list[HeapFile] = []
        self.free: list[int] = []
        self._next_number = 1

    def tightest(self, length: int, file_bytes: int) -> HeapFile | None:
        """The open file with the least room that still fits."""
        tightest: HeapFile | None = None
        for each in self.open:
            fits = file_bytes - each.position >= length
            if fits and (tightest is None or each.position > tightest.position):
                tightest = each
        return tightest

    def skip(self, files: Iterable[int]) -> None:
        """Give new files numbers above those of `files` of this kind."""
        taken = [file & NUMBER_MAX for file in files if kind_of(file) is self.kind]
        self._next_number = max([self._next_number, *(each + 1 for each in taken)])

    def new_number(self) -> int:
        """A number that no file has yet; it is given out again until `skip` is told."""
        return heap_file_number(self.kind, self._next_number)
