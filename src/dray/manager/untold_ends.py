"""Counts of negative ends that a destination tells the sources of its messages.

Outcomes that a sender asked for are told message by message and durably, by confirmations. All
other messages that end without being received are counted here, by stream and class, and the
source's operator reads the numbers. The counts are in memory only: a restart loses them.

    waiting   counted; its source is not connected, or some source was told within the last second
    told      one frame has all counts of a stream; they are forgotten, whether the frame arrives

Bounded: beyond `END_STREAMS_MAX` streams, of which one source has a quarter, and `END_COUNTS_MAX`
counts of one, nothing is counted.
"""

from __future__ import annotations

from collections.abc import Container

from dray.delivery.incoming import StreamKey
from dray.model.limits import END_COUNTS_MAX, END_STREAMS_MAX, END_STREAMS_SHARE, ENDS_TOLD_EVERY_S
from dray.model.places import Amounts
from dray.wire.peer_frames import EndCount


class UntoldEnds:
    """All of them, by stream."""

    def __init__(self) -> None:
        self._counts: dict[StreamKey, dict[tuple[int, str, int], int]] = {}
        self._streams_of: Amounts[str] = Amounts()
        """The number of streams of each source among them."""
        self.due: dict[StreamKey, None] = {}
        """Streams whose sources may be told."""
        self._not_before = 0.0

    def add(
        self,
        key: StreamKey,
        message_class: int,
        count: int = 1,
        origin: str = "",
        *,
        hops: int = 0,
    ) -> None:
        """Count messages of a stream that have ended; `origin` as confirmations name it."""
        counts = self._counts.get(key)
        if counts is None:
            most = END_STREAMS_MAX // END_STREAMS_SHARE
            if len(self._counts) >= END_STREAMS_MAX or self._streams_of[key.source] >= most:
                return
            counts = self._counts[key] = {}
            self._streams_of.add(key.source, 1)
        what = (message_class, origin, hops)
        if what not in counts and len(counts) >= END_COUNTS_MAX:
            return
        counts[what] = counts.get(what, 0) + count
        self.due[key] = None

    def opened(self, key: StreamKey) -> None:
        """The source of a stream can be told."""
        if key in self._counts:
            self.due[key] = None

    def forget(self, key: StreamKey) -> None:
        """The stream has ended: nobody is left to be told."""
        self._taken(key)
        self.due.pop(key, None)

    def is_due(self, now: float) -> bool:
        """Whether `take` may give anything."""
        return now >= self._not_before if self.due else False

    def deadline(self) -> float | None:
        """When to tell what waits; None if nobody can be told anything."""
        return self._not_before if self.due else None

    def take(
        self, now: float, reachable: Container[StreamKey]
    ) -> list[tuple[StreamKey, list[EndCount]]]:
        """The ends to tell now, to the sources that can be reached; others wait until `opened`."""
        if not self.is_due(now):
            return []
        found = []
        for key in self.due:
            if key in reachable:
                counts = self._taken(key)
                told = [
                    EndCount(message_class, count, origin, hops)
                    for (message_class, origin, hops), count in counts.items()
                ]
                found.append((key, told))
        self.due.clear()
        if found:
            self._not_before = now + ENDS_TOLD_EVERY_S
        return found

    def _taken(self, key: StreamKey) -> dict[tuple[int, str, int], int]:
        counts = self._counts.pop(key, None)
        if counts is None:
            return {}
        self._streams_of.add(key.source, -1)
        return counts
