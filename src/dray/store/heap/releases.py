"""Extents that the state no longer names: their bytes stay until those facts are durable."""

from __future__ import annotations

from collections import deque

from dray.store.heap.heap import Heap
from dray.store.heap.heap_file import Extent
from dray.store.kinds import Kind, kind_of


class Releases:
    """Frees extents in the order of the groups of facts that released them."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self.some = False
        """Whether there are any."""
        self._released: list[Extent] = []
        """Since the last group."""
        self._leaving: deque[tuple[int, list[Extent]]] = deque()
        """With each group whose sync has not ended, and the fact behind that group."""

    def add(self, extent: Extent) -> None:
        """Free an extent once the next group is durable, one of an express message at once."""
        # No crash brings express messages back.
        if kind_of(extent.file) is Kind.EXPRESS:
            self._heap.free(extent)
        else:
            self._released.append(extent)
            self.some = True

    def close_group(self, next_fact: int) -> None:
        """Everything added so far goes with the facts before `next_fact`."""
        if self._released:
            self._leaving.append((next_fact, self._released))
            self._released = []

    def free(self, facts_durable: int) -> None:
        """Free the extents of the groups that are durable."""
        while self._leaving and self._leaving[0][0] <= facts_durable:
            for extent in self._leaving.popleft()[1]:
                self._heap.free(extent)
        self.some = bool(self._leaving or self._released)
