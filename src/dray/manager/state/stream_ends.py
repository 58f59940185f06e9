"""Ends of streams that their destinations do not know of yet: what is left of outgoing queues.

kept       the queue was deleted, durably
forgotten  the destination has said that it knows, or it could not be told for too long

Made by facts and by nothing else. Bounded: beyond `ENDS_REMEMBERED_MAX` the oldest is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from dray.machine import Step
from dray.manager.events import Peer
from dray.model.limits import ENDS_REMEMBERED_MAX


class StreamEnd(msgspec.Struct, array_like=True, frozen=True):
    """The end of one stream, whom to tell of it, and when it ended."""

    stream: int
    host: str
    port: int
    secure: bool
    when_us: int

    @property
    def peer(self) -> Peer:
        """The peer to tell."""
        return Peer(self.host, self.port, self.secure)


class StreamEnds:
    """All of them, by stream, the oldest first."""

    def __init__(self) -> None:
        self._ends: dict[int, StreamEnd] = {}
        self._by_peer: dict[Peer, dict[int, None]] = {}
        self.news: list[StreamEnd] = []
        """Ends since the last look. Volatile: after a start the manager looks at all ends."""

    def __len__(self) -> int:
        """The number of stream ends."""
        return len(self._ends)

    def __iter__(self) -> Iterator[StreamEnd]:
        """All of them, the oldest first."""
        return iter(self._ends.values())

    def get(self, stream: int) -> StreamEnd | None:
        """The end of one stream."""
        return self._ends.get(stream)

    def take_news(self) -> list[StreamEnd]:
        """Give the ends that came since the last call."""
        news, self.news = self.news, []
        return news

    def of(self, peer: Peer) -> list[int]:
        """The streams of which a peer is still to be told."""
        return list(self._by_peer.get(peer, ()))

    def wants(self, peer: Peer) -> bool:
        """Whether a peer is still to be told of any."""
        return peer in self._by_peer

    def oldest_before(self, when_us: int) -> StreamEnd | None:
        """The oldest, if it is older than a time."""
        first = next(iter(self), None)
        return first if first is not None and first.when_us < when_us else None

    def ended(self, end: StreamEnd) -> None:
        """Apply the fact that a stream has ended."""
        self._ends[end.stream] = end
        self._by_peer.setdefault(end.peer, {})[end.stream] = None
        self.news.append(end)
        if len(self._ends) > ENDS_REMEMBERED_MAX:
            self.forgotten(next(iter(self._ends)))

    def forgotten(self, stream: int) -> None:
        """Apply the fact that nobody is to be told of an end any more."""
        end = self._ends.pop(stream, None)
        if end is None:
            return
        streams = self._by_peer[end.peer]
        del streams[stream]
        if not streams:
            del self._by_peer[end.peer]

    def state(self) -> list[StreamEnd]:
        """Everything, for a checkpoint."""
        return list(self)

    def restore(self, stream_ends: Iterable[StreamEnd]) -> None:
        """Read what `state` gave."""
        for each in stream_ends:
            self.ended(each)


ENDING: Final = (
    Step(
        "none",
        "DeleteQueue, the peer not connected",
        (StreamEnds.ended, StreamEnds.take_news),
        "kept",
    ),
    Step(
        "none", "DeleteQueue, the peer connected", (StreamEnds.ended, StreamEnds.take_news), "told"
    ),
    Step("none", "DeleteQueue, though the queue carried nothing", (), "none"),
    Step("kept", "Welcome", (StreamEnds.of,), "told"),
    Step("kept", "Tick, after 30 days", (StreamEnds.forgotten,), "none"),
    Step("told", "connection lost", (), "kept"),
    Step("told", "EndStreamAcked", (StreamEnds.forgotten,), "none"),
)
"""The end of a stream, as its source remembers it."""
