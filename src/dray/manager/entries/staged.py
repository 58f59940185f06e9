"""Records that are placed but in no queue yet, and what their senders want to hear of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.delivery.ahead import PiecesAhead
from dray.large.join import PartSeen
from dray.model.classes import Part
from dray.store.heap.heap import Extent
from dray.store.kinds import KIND_AT, Kind
from dray.wire.message_frames import MARK_FIRST, MARK_LARGE, MARK_LAST

_BEGINNINGS = (Part.PLAIN, Part.HEADER)
"""The parts that begin a message."""


class Wish(NamedTuple):
    """An acknowledgment message that is to be sent: to which queue, of which class, about what."""

    administration_queue: str
    message_class: int
    message_id: str
    label: str
    kind: Kind = Kind.RECOVERABLE
    """It lasts as long as the message that it is about (semantics 1.6)."""


class Staged(msgspec.Struct, gc=False, frozen=True):
    """A record that is placed but in no queue yet.

    `seen` if it is part of a large message; `wish` if its arrival is to be acknowledged.
    """

    extent: Extent
    crc: int
    number: int
    part: int
    priority: int
    sent_us: int
    expires_us: int = 0
    copies: int = 0
    """`COPY_DEAD_LETTER`, `COPY_JOURNAL` and `WANTS_ACKNOWLEDGMENTS`, as the sender asked."""
    message_class: int = 0
    seen: PartSeen | None = None
    wish: Wish | None = None

    @property
    def express(self) -> bool:
        """Whether it is gone after a restart."""
        return self.extent.file >> KIND_AT == Kind.EXPRESS


class GroupPlace(NamedTuple):
    """The place of a record among those of its transaction, as an `Entry` has it."""

    ordinal: int
    following: int
    """The number of records that its transaction sent to the queue behind it.

    With `MARK_LARGE`: how many messages it sent to the queue, each large one counted once.
    """
    marks: int


def group_places(parts: Sequence[int]) -> Iterator[GroupPlace]:
    """The places of the records of a transaction in a queue, by their parts."""
    count = len(parts)
    mark, messages = 0, 0
    if any(parts):
        mark, messages = MARK_LARGE, sum(part in _BEGINNINGS for part in parts)
    for ordinal in range(1, count + 1):
        ends = MARK_FIRST * (ordinal == 1) | MARK_LAST * (ordinal == count)
        yield GroupPlace(ordinal, messages or count - ordinal, mark | ends)


class SentAhead(PiecesAhead):
    """The pieces of a transaction that were sent ahead of its commit, and where they lie."""

    def __init__(self, staged: list[Staged]) -> None:
        """Begin with none sent; `staged` is what the transaction sends to the outgoing queue."""
        super().__init__()
        self.staged = staged
        self.pinned: dict[int, int] = {}
        """The heap file of each piece that is under way."""
