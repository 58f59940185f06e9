"""One direction of a cable that is as bad as one likes: which packets come out of it, and when.

    packet --> queue, emptied at the line's rate --> the line, some time long --> packet
                  |                                     |
                  full: lost                            by chance: lost, twice, or overtaken

Theory of operation: the queue is a number, the time at which the line has sent all that was taken.
A packet that would wait there behind more than `queue_bytes` is lost, as in a router. What the line
carries comes out `delay_s` after it was sent, in order, unless it is held back by `late_s` and so
overtaken. A cut cable loses what is on it and what comes. All chance is that of one seeded
generator: the same packets at the same times have the same fate.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque

import msgspec


class Faults(msgspec.Struct, frozen=True):
    """What is wrong with a cable, each way. Chances are per packet, from 0 to 1."""

    delay_s: float = 0.0
    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0
    late_s: float = 0.01
    """How much longer a packet takes that is overtaken."""
    rate_bytes_s: float = 0.0
    """What the line carries; 0 if it is as quick as the machine."""
    queue_bytes: int = 1 << 20
    """What may wait for the line."""


class Lane:
    """One direction of a cable."""

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        """Begin empty and whole."""
        self.counts: Counter[str] = Counter()
        """Packets `taken`, and of them `lost`, `overflowed`, `cut`, `repeated`, `overtaken`; and
        `most_bytes`, what was on the line at once."""
        self._faults = faults
        self._rng = rng
        self._is_cut = False
        self._sent_at = 0.0
        self._bytes = 0
        self._in_order: deque[tuple[float, bytes]] = deque()
        self._late: list[tuple[float, int, bytes]] = []

    def take(self, packet: bytes, now: float) -> None:
        """A packet goes in."""
        faults, counts = self._faults, self.counts
        counts["taken"] += 1
        if self._is_cut:
            counts["cut"] += 1
            return
        arrives = self._carried(len(packet), now)
        if arrives is None:
            counts["overflowed"] += 1
        elif self._happens(faults.loss):
            counts["lost"] += 1
        elif self._happens(faults.reordering):
            counts["overtaken"] += 1
            heapq.heappush(self._late, (arrives + faults.late_s, counts["overtaken"], packet))
        else:
            self._put(arrives, packet)
            if self._happens(faults.repetition):
                counts["repeated"] += 1
                self._put(arrives, packet)

    def due(self, now: float) -> list[bytes]:
        """What comes out until now."""
        found = []
        while self._in_order and self._in_order[0][0] <= now:
            found.append(self._in_order.popleft()[1])
            self._bytes -= len(found[-1])
        while self._late and self._late[0][0] <= now:
            found.append(heapq.heappop(self._late)[2])
        return found

    def deadline(self) -> float | None:
        """When something comes out next."""
        times = [waiting[0][0] for waiting in (self._in_order, self._late) if waiting]
        return min(times, default=None)

    def cut(self) -> None:
        """Lose what is on the line, and all that comes until it is mended."""
        self.counts["cut"] += len(self._in_order) + len(self._late)
        self._in_order.clear()
        self._bytes = 0
        self._late.clear()
        self._is_cut = True

    def mend(self) -> None:
        """Carry again."""
        self._is_cut = False

    def _put(self, arrives: float, packet: bytes) -> None:
        self._in_order.append((arrives, packet))
        self._bytes += len(packet)
        self.counts["most_bytes"] = max(self.counts["most_bytes"], self._bytes)

    def _carried(self, size: int, now: float) -> float | None:
        """When a packet arrives that comes now; None if it finds no room to wait."""
        faults = self._faults
        if faults.rate_bytes_s:
            waiting_s = max(0.0, self._sent_at - now)
            if waiting_s * faults.rate_bytes_s + size > faults.queue_bytes:
                return None
            now = self._sent_at = now + waiting_s + size / faults.rate_bytes_s
        return now + faults.delay_s

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._rng.random() < chance
