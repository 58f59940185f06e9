"""The messages in one frame of a stream, the places of their records, the verdict on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dray.delivery.incoming import StreamKey
from dray.manager.change import heap_kind_in
from dray.manager.disk import Span
from dray.manager.queue import ArrivalRoute, StoredQueue
from dray.model.classes import MessageClass
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind
from dray.wire.message_frames import MARK_SINGLE
from dray.wire.peer_frames import Data
from dray.wire.record import RecordHeader

Judged = tuple[int, int, MessageClass | None]
"""A message by its place in the frame, where its record begins, and why it may not enter."""


class Placed(NamedTuple):
    """Records that came ahead of their frame (`ahead.py`): the body has only their beginnings."""

    extents: list[Extent]
    widths: list[int]
    """The bytes of each in the body."""


class Arrival(NamedTuple):
    """A Data frame of which everything from `begin` on is new."""

    key: StreamKey
    head: Data
    headers: list[RecordHeader]
    body: memoryview
    begin: int
    incarnation: int
    """The incarnation of its source, 0 if that of the message accepted before."""
    placed: Placed | None = None
    """The places where the records lie already."""

    @property
    def widths(self) -> Sequence[int]:
        """The bytes of each message in the body."""
        if self.placed is not None:
            return self.placed.widths
        return [each.length for each in self.head.envelopes]

    @property
    def new_bytes(self) -> int:
        """The bytes of all new records."""
        if self.placed is not None:
            return sum(each.length for each in self.placed.extents[self.begin :])
        return len(self.body) - sum(each.length for each in self.head.envelopes[: self.begin])

    def route(self, at: int, queue: StoredQueue) -> ArrivalRoute:
        """The route by which one of its messages comes."""
        return ArrivalRoute(
            self.key.source, self.key.stream, self.headers[at].source.hex(), queue.number
        )

    def spans(self, judged: Iterable[Judged], queue: StoredQueue) -> list[Span]:
        """The parts of the body with the records of some of its messages, and where they belong.

        A refused message is among them if it becomes a dead letter here.
        """
        envelopes = self.head.envelopes
        if not queue.takes_express:
            return [Span(offset, envelopes[at].length) for at, offset, _ in judged]
        return [
            Span(offset, envelopes[at].length, self._kind((at, offset, why), queue))
            for at, offset, why in judged
        ]

    def _kind(self, judged: Judged, queue: StoredQueue) -> Kind:
        """The kind of heap file for one of its messages."""
        if judged[2] is not None:
            return Kind.JOURNAL
        return Kind.EXPRESS if self.is_express(judged, queue) else Kind.RECOVERABLE

    def is_express(self, judged: Judged, queue: StoredQueue) -> bool:
        """Whether one of its messages enters the queue as an express one."""
        at, _, why = judged
        envelope = self.head.envelopes[at]
        in_transaction = bool(envelope.transaction) and not envelope.marks & MARK_SINGLE
        kind = heap_kind_in(queue, self.headers[at], in_transaction=in_transaction)
        return why is None and kind is Kind.EXPRESS
