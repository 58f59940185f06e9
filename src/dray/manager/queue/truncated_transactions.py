"""Transactions that ended in an outgoing queue without their last message, until that is heard.

The messages of several origins stand in an outgoing queue of a manager that forwards. When the last
one of a transaction leaves it undelivered (it expired, it was purged), or its own source says that
no more of it comes, the next message of the stream may be of another origin: the destination goes
on over the gap and cannot know whose transaction has ended in it. So the position is kept by the
arrival route of the transaction, told with what is sent behind it, and forgotten by the fact that
it is acknowledged.

On one route only the last position matters: before it everything of that origin has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.machine import Step
from dray.manager.entries import lookup_id_of, marks_of, route_of, tail_of
from dray.manager.facts import Accepted
from dray.manager.queue.arrival_routes import ArrivalRoute, ArrivalRoutes
from dray.model.limits import TRUNCATED_MAX
from dray.wire.message_frames import MARK_FIRST, MARK_LAST


class TruncatedTransactions:
    """Truncated transactions of one outgoing queue, by route. Only facts change them."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}

    def __len__(self) -> int:
        """Number of routes with such an end."""
        return len(self._positions)

    def left(self, entry: bytes) -> None:
        """Apply the fact that a message has left undelivered."""
        if marks_of(entry) & (MARK_FIRST | MARK_LAST) == MARK_LAST:
            self.ended(route_of(tail_of(entry)), lookup_id_of(entry))

    def ended(self, route: int, position: int) -> None:
        """Apply the fact that before a position all that came by a route is over."""
        # Beyond the bound the one that was noted first is told by the next message of its origin.
        self._positions[route] = max(position, self._positions.pop(route, position))
        if len(self._positions) > TRUNCATED_MAX:
            del self._positions[next(iter(self._positions))]

    def ended_in(self, fact: Accepted, routes: ArrivalRoutes, position: int) -> None:
        """Apply what a fact says of transactions of which their own source sends no more."""
        for origin, transaction in fact.going:
            route = routes.number(ArrivalRoute(fact.source, fact.stream, origin, fact.queue))
            if route and not transaction:
                self.ended(route, position)

    def heard(self, upto: int) -> None:
        """Apply the fact that the destination has acknowledged everything up to a position."""
        if self._positions:
            waiting = [each for each in self._positions.items() if each[1] > upto]
            self._positions = dict(waiting)

    def between(self, after: int, upto: int) -> list[tuple[int, int]]:
        """Positions above one and up to another, rising, each with its route."""
        found = [(each, route) for route, each in self._positions.items() if after < each <= upto]
        return sorted(found)

    def state(self) -> list[tuple[int, int]]:
        """Everything, for a checkpoint."""
        return list(self._positions.items())

    def restore(self, positions: Iterable[tuple[int, int]]) -> None:
        """Read what `state` gave."""
        self._positions = dict(positions)


TRUNCATED: Final = (
    Step(
        "none",
        "the last message of a transaction leaves undelivered",
        (TruncatedTransactions.left, TruncatedTransactions.ended),
        "kept",
    ),
    Step(
        "none",
        "the source of a forwarded transaction ends it",
        (TruncatedTransactions.ended,),
        "kept",
    ),
    Step("kept", "Transmit of messages behind it", (TruncatedTransactions.between,), "told"),
    Step("kept", "PassOver: no message is behind it", (ArrivalRoutes.going_into,), "told"),
    Step("kept", "OrderAcked: the peer has its message", (TruncatedTransactions.heard,), "none"),
    Step("told", "LinkLost", (), "kept"),
    Step("told", "Tick: the deadline has come", (TruncatedTransactions.between,), "told"),
    Step("told", "OrderAcked", (TruncatedTransactions.heard,), "none"),
)
"""The end of a transaction short of its last message, as an outgoing queue keeps it."""
