"""The pieces of one large message that travel to its destination ahead of their commit.

A piece is a fragment that is staged in an open transaction of the source. It is no message yet: it
has no number in the stream, and nothing acknowledges it. The destination keeps it for the
connection on which it came. The commit then names the pieces, and their records travel no second
time. If anything goes wrong, the records travel with their messages, as if nothing had been sent.

A quick line has a few pieces under way, so that it is never idle; a slow one has one, so that a
small message of the same stream waits no longer than for any message of that size.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final, NamedTuple

from dray.delivery.events import LinkLost
from dray.machine import Machine, Transition, always, but, nothing, on
from dray.model.limits import AHEAD_PIECES_UNDER_WAY, AHEAD_QUICK_S

PIECES_AT_FIRST = 1
"""Nothing is known of the line before the first answer."""


class PieceStaged(NamedTuple):
    """A fragment is placed at the source; its place among the transaction's sends to the queue."""

    ordinal: int


class PieceKept(NamedTuple):
    """The destination keeps a piece."""

    ordinal: int


class PieceLeftOut(NamedTuple):
    """The destination does not keep a piece, and wants no other one."""

    ordinal: int


class CommitCame(NamedTuple):
    """The transaction is committed: what is staged later belongs to another one."""


class GivenUpAhead(NamedTuple):
    """The transaction was aborted, or is committed under another number."""


class NothingKept(NamedTuple):
    """The destination has given up the pieces that it kept."""


AheadEvent = (
    PieceStaged | PieceKept | PieceLeftOut | CommitCame | GivenUpAhead | NothingKept | LinkLost
)


class SendPiece(NamedTuple):
    """Send one piece."""

    ordinal: int


class DropPieces(NamedTuple):
    """Tell the destination to give up all pieces."""


AheadEffect = SendPiece | DropPieces


class AheadStage(enum.Enum):
    """The state of the pieces of one transaction."""

    TRAVELLING = "pieces travel as they are staged"
    FULL = "the destination takes no more"
    COMMITTED = "messages that go out name the pieces"
    DROPPED = "the destination gives the pieces up"
    OVER = "there is nothing left to do"


class PiecesAhead(Machine[AheadStage, AheadEvent, AheadEffect]):
    """The pieces of one transaction in one outgoing queue. Volatile, as the connection is."""

    def __init__(self) -> None:
        super().__init__(AheadStage.TRAVELLING)
        self.there: set[int] = set()
        """Ordinals that were sent and not refused: a message that is sent may name them.

        A piece that is under way arrives before a message that is sent later, and if it is not
        kept then, the destination says so instead of taking the message.
        """
        self.under_way: dict[int, float] = {}
        """When each that is not answered was sent."""
        self._waiting: deque[int] = deque()
        """Ordinals that wait for room on the line; they count only while pieces travel."""
        self._most = PIECES_AT_FIRST

    # ------------------------------------------------------------------------------ conditions

    def has_room(self, _event: object, _now: float) -> bool:
        """Fewer pieces are under way than the line may have."""
        return len(self.under_way) < self._most

    def has_sent(self, _event: object, _now: float) -> bool:
        """The destination may keep a piece."""
        return bool(self.there or self.under_way)

    @property
    def is_done(self) -> bool:
        """Whether no message can name a piece any more, and no answer is to come."""
        ended = self._stage in (AheadStage.COMMITTED, AheadStage.DROPPED, AheadStage.OVER)
        return ended and not (self.there or self.under_way)

    # --------------------------------------------------------------------------------- actions

    def send(self, event: PieceStaged, now: float) -> list[AheadEffect]:
        """SendPiece."""
        self.there.add(event.ordinal)
        self.under_way[event.ordinal] = now
        return [SendPiece(event.ordinal)]

    def wait(self, event: PieceStaged, _now: float) -> list[AheadEffect]:
        """Send the piece when one that is under way is answered, or else with its message."""
        self._waiting.append(event.ordinal)
        return []

    def send_more(self, event: PieceKept, now: float) -> list[AheadEffect]:
        """Learn how quick the line is, and send the pieces that it has room for: SendPiece."""
        self.note(event, now)
        effects: list[AheadEffect] = []
        while self._waiting and self.has_room(event, now):
            effects += self.send(PieceStaged(self._waiting.popleft()), now)
        return effects

    def note(self, event: PieceKept, now: float) -> list[AheadEffect]:
        """Note that the piece is no longer under way."""
        sent_at = self.under_way.pop(event.ordinal, None)
        if sent_at is not None:
            self._most = AHEAD_PIECES_UNDER_WAY if now - sent_at <= AHEAD_QUICK_S else 1
        return []

    def leave_out(self, event: PieceLeftOut, _now: float) -> list[AheadEffect]:
        """Send this piece with its message."""
        self.under_way.pop(event.ordinal, None)
        self.there.discard(event.ordinal)
        return []

    def leave_all_out(self, _event: object, _now: float) -> list[AheadEffect]:
        """Send every piece with its message; answers to those under way still come."""
        self.there.clear()
        return []

    def drop(self, event: object, now: float) -> list[AheadEffect]:
        """DropPieces; answers to those under way still come."""
        return [DropPieces(), *self.leave_all_out(event, now)]

    def forget(self, event: object, now: float) -> list[AheadEffect]:
        """Forget every piece: the records go with their messages, on the next connection."""
        self.under_way.clear()
        return self.leave_all_out(event, now)


_S = AheadStage
_OPEN = (_S.TRAVELLING, _S.FULL)
_LATER = (_S.FULL, _S.COMMITTED, _S.DROPPED)
_P = PiecesAhead

AHEAD: Final[tuple[Transition, ...]] = (
    on(_S.TRAVELLING, PieceStaged, _P.has_room, _P.send),
    on(_S.TRAVELLING, PieceStaged, always, _P.wait),
    on(_LATER, PieceStaged, always, nothing),
    # The destination answers each piece.
    on(_S.TRAVELLING, PieceKept, always, _P.send_more),
    on(_LATER, PieceKept, always, _P.note),
    on(_S.TRAVELLING, PieceLeftOut, always, _P.leave_out, _S.FULL),
    on(_LATER, PieceLeftOut, always, _P.leave_out),
    on(_S.TRAVELLING, NothingKept, always, _P.leave_all_out, _S.FULL),
    on(_LATER, NothingKept, always, _P.leave_all_out),
    # The transaction ends.
    on(_OPEN, CommitCame, always, nothing, _S.COMMITTED),
    on((_S.COMMITTED, _S.DROPPED), CommitCame, always, nothing),
    on(_OPEN, GivenUpAhead, _P.has_sent, _P.drop, _S.DROPPED),
    on(_OPEN, GivenUpAhead, always, nothing, _S.OVER),
    on((_S.COMMITTED, _S.DROPPED), GivenUpAhead, always, nothing),
    on(but(tuple(_S), _S.OVER), LinkLost, always, _P.forget, _S.OVER),
)
"""One transaction's pieces on one connection: `handle` takes every decision from here."""
PiecesAhead.run(AHEAD)
