"""When messages expire: a heap of times, looked at only when the first has come.

Entries are never taken out early: a message that left its queue is simply not found when its time
comes. So a message costs one push and one pop, and nothing while it waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Expiries:
    """Times in microseconds since the epoch, each with a queue and a position."""

    def __init__(self) -> None:
        """Begin without any."""
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
