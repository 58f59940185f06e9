"""When the streams of outgoing queues want to be looked at, the soonest first.

An entry of the heap whose stream has another deadline by now is dropped when it comes up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from dray.manager.queue import QueueTable, StoredQueue


class StreamTimers:
    """The deadlines of all streams, by outgoing queue."""

    def __init__(self, queues: QueueTable) -> None:
        """Begin with none."""
        self._queues = queues
        self.noted: list[tuple[float, int]] = []
        """A heap of deadlines and queues; some hold no more."""
        self._deadlines: dict[int, float] = {}

    def note(self, number: int, at: float | None) -> None:
        """The stream of a queue has this deadline now."""
        if at is not None and self._deadlines.get(number) != at:
            self._deadlines[number] = at
            heapq.heappush(self.noted, (at, number))

    def due(self, now: float) -> Iterator[StoredQueue]:
        """The queues whose streams have reached their deadline."""
        while self.noted and self.noted[0][0] <= now:
            at, number = heapq.heappop(self.noted)
            queue = self._queues.get(number)
            if self._deadlines.get(number) == at:
                del self._deadlines[number]
            if queue is not None and queue.stream is not None and queue.stream.deadline() == at:
                yield queue

    def soonest(self) -> float | None:
        """The first deadline, if there is any."""
        while self.noted and not self._is_current(*self.noted[0]):
            heapq.heappop(self.noted)
        return self.noted[0][0] if self.noted else None

    def _is_current(self, at: float, number: int) -> bool:
        queue = self._queues.get(number)
        if queue is not None and queue.stream is not None and queue.stream.deadline() == at:
            return True
        if self._deadlines.get(number) == at:
            del self._deadlines[number]
        return False
