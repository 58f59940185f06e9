"""Confirmations: the destination tells the source what became of its messages (S2-8).

Independent of commits and order acks. The destination keeps a confirmation, durably, until the
source has taken it; ordinals, per stream, make taking idempotent: what the source has heard
before, it skips. They travel on the connection that the source has made, once it has opened the
stream there, so that a manager that cannot be dialled is told too, and never before the order ack
of the message.

    destination   added (fact) -> sent, from the first not taken, on each connection -> taken (fact)
    source        heard up to n (in the fact that acts on it) -> says taken up to n

A stream that has ended keeps nothing: its source has deleted the queue, and hears no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from dray.delivery.incoming import StreamKey
from dray.machine import Step

Told = TypeVar("Told")


class OutboxSnapshot(msgspec.Struct, Generic[Told], array_like=True, frozen=True):
    """One stream's confirmations in a checkpoint; `first` is the ordinal of the first."""

    source: str
    stream: int
    first: int
    waiting: list[Told]
    ended: bool
    refused: int


class Outbox(Generic[Told]):
    """The confirmations that a destination has to tell, by stream."""

    def __init__(self, snapshots: Iterable[OutboxSnapshot[Told]] = ()) -> None:
        """Begin with what a checkpoint knew."""
        self._waiting: dict[StreamKey, deque[Told]] = {}
        self._first: dict[StreamKey, int] = {}
        self._ended: set[StreamKey] = set()
        self._refused: dict[StreamKey, int] = {}
        """The ordinal of the last refusal; only of streams whose source has not taken it."""
        for each in snapshots:
            key = StreamKey(each.source, each.stream)
            self._first[key] = each.first
            self._waiting[key] = deque(each.waiting)
            if each.ended:
                self._ended.add(key)
            if each.refused:
                self._refused[key] = each.refused

    def add(self, key: StreamKey, told: Iterable[Told], *, refused: bool = False) -> None:
        """Apply the fact that something is to be told; `refused` of messages that did not enter."""
        if key in self._ended:
            return
        self._first.setdefault(key, 1)
        self._waiting.setdefault(key, deque()).extend(told)
        if refused:
            self._refused[key] = self.last(key)

    def refused(self, key: StreamKey) -> int:
        """Up to which ordinal a source must hear before it may believe an order ack.

        Only then it knows of every message that the ack covers whether it entered; 0 if it does.
        """
        return self._refused.get(key, 0)

    def taken(self, key: StreamKey, upto: int) -> None:
        """Apply the fact that the source has all up to an ordinal."""
        waiting = self._waiting.get(key)
        while waiting and self._first[key] <= upto:
            waiting.popleft()
            self._first[key] += 1
        if self.refused(key) <= self.taken_upto(key):
            self._refused.pop(key, None)

    def go_above(self, key: StreamKey, ordinal: int) -> None:
        """Apply the fact that a source has heard an ordinal of another store than this one.

        It skips the ordinals up to that one, so all that waits is told by higher ones.
        """
        higher = ordinal + 1 - self._first.get(key, 1)
        if higher > 0:
            self._waiting.setdefault(key, deque())
            self._first[key] = ordinal + 1
            if key in self._refused:
                self._refused[key] += higher

    def ended(self, key: StreamKey) -> None:
        """Apply the fact that a stream has ended; ordinals are kept, for it may be there again."""
        self.taken(key, self.last(key))
        self._first.setdefault(key, 1)
        self._waiting.setdefault(key, deque())
        self._ended.add(key)

    def reopened(self, key: StreamKey) -> None:
        """Apply the fact that a stream that had ended is there again."""
        self._ended.discard(key)

    def has_ended(self, key: StreamKey) -> bool:
        """Whether nobody is left to be told of a stream's messages."""
        return key in self._ended

    def came_from_backup(self, ordinal: int) -> None:
        """Apply the fact that all of this is an old copy: no ordinal is given twice.

        Waiting confirmations are told again; the source may have heard them in the incarnation that
        was undone.
        """
        for key, first in self._first.items():
            self._first[key] = max(first, ordinal)
            if key in self._refused:
                self._refused[key] = self.last(key)

    def last(self, key: StreamKey) -> int:
        """The ordinal of the last confirmation there is; 0 if there never was one."""
        return self._first.get(key, 1) + len(self._waiting.get(key, ())) - 1

    def taken_upto(self, key: StreamKey) -> int:
        """The ordinal up to which the source has everything."""
        return self._first.get(key, 1) - 1

    def after(self, key: StreamKey, ordinal: int, most: int) -> tuple[int, list[Told]]:
        """At most `most` confirmations after an ordinal, and the ordinal of the first."""
        first = self._first.get(key, 1)
        skip = max(0, ordinal + 1 - first)
        return first + skip, list(islice(self._waiting.get(key, ()), skip, skip + most))

    def state(self) -> list[OutboxSnapshot[Told]]:
        """Everything, for a checkpoint; ordinals are kept though nothing waits."""
        return [
            OutboxSnapshot(
                key.source,
                key.stream,
                first,
                list(self._waiting[key]),
                key in self._ended,
                self.refused(key),
            )
            for key, first in self._first.items()
        ]


CONFIRMATION: Final = (
    Step("none", "a fact: the message left, or may not enter", (Outbox.add,), "kept"),
    Step("kept", "OpenStream", (Outbox.after,), "told"),
    Step("kept", "the turn ends, and the stream is open", (Outbox.after,), "told"),
    Step("told", "connection lost", (), "kept"),
    Step("told", "ConfirmationsAcked", (Outbox.taken,), "taken"),
)
"""One confirmation at the destination."""
