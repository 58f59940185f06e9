"""The streams that arrive: every frame of them, and what they leave for later.

Pieces that came ahead of a commit are kept for a while, and sources wait for
room or for a queue that is not there yet: `ArrivingStreams` looks at these again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dray.manager.incoming import ahead, arrivals, end_of_stream
from dray.manager.peers import Holes, Sources, Strangers
from dray.manager.session import Session
from dray.wire import peer_frames
from dray.wire.head import Head


class ArrivingStreams:
    """The streams that come from other managers."""

    def __init__(self, sources: Sources, strangers: Strangers, holes: Holes) -> None:
        """Hand each function the objects that it works with."""
        self._sources = sources
        self.kept_ahead = kept = ahead.KeptAhead(sources.context)
        """Pieces of large messages that came ahead of their commits."""
        self.without_body: Mapping[type[Head], Callable[..., None]] = {
            peer_frames.OpenStream: partial(arrivals.handle_open_stream, sources, strangers),
            peer_frames.Passed: partial(arrivals.handle_passed, sources),
            peer_frames.EndStream: partial(
                end_of_stream.handle_end_stream, sources, holes, kept, strangers
            ),
            peer_frames.AheadDropped: kept.handle_dropped,
        }
        self.with_body: Mapping[type[Head], Callable[..., None]] = {
            peer_frames.Ahead: kept.handle,
            peer_frames.Data: partial(arrivals.handle_data, sources, kept),
        }

    def go_on(self) -> None:
        """Tell the sources that have waited for room or a queue, and whose wait is over."""
        waiting = self._sources.waiting_for_room
        if waiting.for_quota or waiting.for_disk:
            arrivals.tell_of_room(self._sources)
        if self._sources.missing_queues:
            arrivals.tell_of_new_queues(self._sources)

    def deadline(self) -> float | None:
        """When to call `tick` if nothing happens before."""
        ahead, waiting = self.kept_ahead, self._sources.waiting_for_room
        soonest = ahead.deadline() if ahead.pieces else None
        room = waiting.deadline() if waiting.for_disk else None
        return room if soonest is None or (room is not None and room < soonest) else soonest

    def tick(self) -> None:
        """Drop the pieces whose commit does not come."""
        self.kept_ahead.drop_old()

    def closed(self, session: Session) -> None:
        """A connection has ended."""
        self._sources.forget(session)
        self.kept_ahead.forget(session)
