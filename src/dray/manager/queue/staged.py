"""A record that is placed but in no queue yet, and what its sender wants to hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dray.delivery.ahead import PiecesAhead
from dray.store.kinds import KIND_AT, Kind

if TYPE_CHECKING:
    from dray.large.join import PartSeen
    from dray.store.heap.heap import Extent


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


class SentAhead(PiecesAhead):
    """The pieces of a transaction that were sent ahead of its commit, and where they lie."""

    def __init__(self, staged: list[Staged]) -> None:
        """Begin with none sent; `staged` is what the transaction sends to the outgoing queue."""
        super().__init__()
        self.staged = staged
        self.pinned: dict[int, int] = {}
        """The heap file of each piece that is under way."""
