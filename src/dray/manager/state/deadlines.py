"""Heaps of times, looked at only when the first has come.

Entries are never taken out early: what became of a message, a stream or a transaction shows when
its time comes. So a wait costs one push and one pop, and nothing meanwhile.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator


def soonest(*times: float | None) -> float | None:
    """The first of several times, where None is never. A loop, as every lone send calls it."""
    first = None
    for at in times:
        if at is not None and (first is None or at < first):
            first = at
    return first


class Deadlines:
    """Numbers of queues or transactions to look at when the time of each has come.

    `of` says when that is by now, None for never. A time may move back without a word here: an
    entry that comes up too early goes back to the time that holds.
    """

    def __init__(self, of: Callable[[int], float | None]) -> None:
        self._of = of
        self._heap: list[tuple[float, int]] = []
        self._noted: dict[int, float] = {}
        """The earliest entry of each number: one is enough."""
        self.soonest: float | None = None
        """Nothing is due before this time."""

    def __len__(self) -> int:
        """The number of entries that wait."""
        return len(self._heap)

    def note(self, number: int, at: float) -> None:
        """A number has this time now."""
        if at < self._noted.get(number, math.inf):
            self._noted[number] = at
            heapq.heappush(self._heap, (at, number))
            self.soonest = self._heap[0][0]

    def due(self, now: float) -> Iterator[int]:
        """Take out the numbers whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            number = self._taken()
            at = self._of(number)
            if at is not None and at <= now:
                yield number
            elif at is not None:
                self.note(number, at)

    def first(self) -> float | None:
        """The soonest time that holds, where `soonest` may be one that has moved."""
        while self._heap:
            soonest, number = self._heap[0]
            at = self._of(number)
            if at == soonest:
                return at
            self._taken()
            if at is not None:
                self.note(number, at)
        return None

    def _taken(self) -> int:
        at, number = heapq.heappop(self._heap)
        if self._noted.get(number) == at:
            del self._noted[number]
        self.soonest = self._heap[0][0] if self._heap else None
        return number


class Expiries:
    """When messages expire: microseconds since the epoch, each with a queue and a position."""

    def __init__(self) -> None:
        self.times: list[tuple[int, int, int]] = []
        """A heap: the next time is the first."""

    def add(self, expires_us: int, queue: int, lookup_id: int) -> None:
        """Note when a message expires."""
        heapq.heappush(self.times, (expires_us, queue, lookup_id))

    def due(self, now_us: int) -> Iterator[tuple[int, int]]:
        """Take out what has come: queue and position."""
        while self.times and self.times[0][0] <= now_us:
            _, queue, lookup_id = heapq.heappop(self.times)
            yield queue, lookup_id
