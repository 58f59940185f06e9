"""Streams that were refused because there is no such queue here, and the word that there is one.

A source that is refused for that lets its messages go and does not ask again before it has others
to send, so it would show its operator a refusal that no longer holds. It is told at the end of the
turn in which a queue of the name is made: by a StreamState with `room`, upon which it asks again.
This is the destination's half; the source's half is `Links._refused`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.manager.queue import QueueTable, StoredQueue
from dray.manager.session import Session
from dray.model.limits import MISSING_QUEUES_MAX
from dray.model.places import Places


class MissingQueues:
    """The streams that wait for each name; volatile, for a source that connects anew asks again."""

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self.wanted: dict[tuple[int, int], tuple[Session, str]] = {}
        """By session and stream: the session, and the name of the queue."""
        self._callers: Places[tuple[int, int]] = Places()
        self._seen = 0

    def __bool__(self) -> bool:
        """Whether a queue was made since the last look that one of them may have waited for."""
        return bool(self.wanted) and self._seen != self._queues.made

    def add(self, session: Session, stream: int, name: str) -> None:
        """Note that a stream was refused.

        Beyond the bound the oldest one of the caller that has the most is forgotten.
        """
        key = session.number, stream
        self._drop(key)
        self.wanted[key] = session, name
        self._callers.add(key, session.caller.place)
        if len(self.wanted) > MISSING_QUEUES_MAX:
            self._drop(self._callers.oldest_of_most())

    def opened(self, session: Session, stream: int) -> None:
        """The stream is open, or wants another queue."""
        self._drop((session.number, stream))

    def forget(self, session: Session) -> None:
        """A connection has ended."""
        for key in self._callers.of(session.caller.place):
            if key[0] == session.number:
                self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        self.wanted.pop(key, None)
        self._callers.discard(key)

    def take(self) -> Iterator[tuple[Session, int, StoredQueue]]:
        """Give the streams whose queue is there now; they wait no more."""
        self._seen = self._queues.made
        for key, (session, name) in list(self.wanted.items()):
            queue = self._queues.find(name)
            if queue is not None:
                self._drop(key)
                yield session, key[1], queue
