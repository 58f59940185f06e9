"""By which routes messages of other managers come here, by number.

A route is a stream (a source manager and its number there), the manager that a message was first
sent at (its origin, another one where the source forwards) and the queue it leads to. An entry has
the number of its route, so that the source of the stream can be told what became of the message.
Numbers are given in the order of facts, from 1, and never used again; 0 is no route: sent here.

A route is forgotten when its queue is deleted, or when its stream has ended and nothing is in its
queue. There are at most `ARRIVAL_ROUTES_MAX`, of which the managers of one caller have a share; a
frame by another one is refused.

An origin's transactions come one after another by a route. So at most one is *going on*: its last
message has neither come nor been given up. All others there is no more of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, NamedTuple

from dray.errors import Misuse
from dray.machine import Step
from dray.manager.facts import Accepted
from dray.model.limits import ARRIVAL_ROUTES_MAX, ARRIVAL_ROUTES_SHARE
from dray.model.places import Amounts


class ArrivalRoute(NamedTuple):
    """From the origin over a stream of the source to a queue here."""

    source: str
    stream: int
    origin: str
    queue: int

    @property
    def told_origin(self) -> str:
        """The origin as a confirmation names it: empty if it is the source itself."""
        return "" if self.origin == self.source else self.origin


class ArrivalRoutes:
    """All routes that are in use."""

    def __init__(
        self,
        routes: Iterable[tuple[int, ArrivalRoute]] = (),
        going: Iterable[tuple[int, int]] = (),
        last: int = 0,
    ) -> None:
        """Begin with what a checkpoint knew."""
        self.last = last
        """The highest number that was ever given."""
        self._routes: dict[int, ArrivalRoute] = {}
        self._numbers: dict[ArrivalRoute, int] = {}
        self._count_of: Amounts[str] = Amounts()
        """The number of routes of each source."""
        self._into: dict[int, dict[str, list[int]]] = {}
        """Numbers by queue and origin."""
        self._going: dict[int, int] = {}
        for number, route in routes:
            self._add(number, route)
        for number, transaction in going:
            self.went_on(number, transaction)

    def __len__(self) -> int:
        """The number of routes."""
        return len(self._routes)

    def add(self, route: ArrivalRoute) -> None:
        """Apply the fact that a route was used for the first time."""
        self.last += 1
        self._add(self.last, route)

    def _add(self, number: int, route: ArrivalRoute) -> None:
        self._routes[number] = route
        self._numbers[route] = number
        self._count_of.add(route.source, 1)
        self._into.setdefault(route.queue, {}).setdefault(route.origin, []).append(number)

    def check_room(
        self, wanted: Iterable[ArrivalRoute], of_caller: Callable[[], list[str]]
    ) -> None:
        """Raise `Misuse` if one of these is new and there are as many as there may be.

        `of_caller` gives the ids of all managers of the caller that these come from.
        """
        share = ARRIVAL_ROUTES_MAX // ARRIVAL_ROUTES_SHARE
        if len(self._routes) < share or all(route in self._numbers for route in wanted):
            return
        if len(self._routes) >= ARRIVAL_ROUTES_MAX:
            raise Misuse(
                f"messages come here by {ARRIVAL_ROUTES_MAX} routes, which is the most;"
                " delete queues here, or outgoing queues that lead here, that are not used"
            )
        if sum(self._count_of[each] for each in of_caller()) >= share:
            raise Misuse(
                f"messages of this caller's queue managers come here by {share} routes, which is"
                " the most for one caller; delete outgoing queues that are not used"
            )

    def number(self, route: ArrivalRoute) -> int:
        """The number of a route; 0 if it was never used."""
        return self._numbers.get(route, 0)

    def numbered(self, number: int) -> ArrivalRoute | None:
        """The route of a number; None for 0, and for one that is forgotten."""
        return self._routes.get(number)

    def back(self, origin: str, queue: int) -> list[ArrivalRoute]:
        """The routes by which messages of an origin came into an outgoing queue, oldest first."""
        return [self._routes[number] for number in self._into.get(queue, {}).get(origin, ())]

    def accepted(self, fact: Accepted) -> None:
        """Apply what a fact says of its routes."""
        for origin in fact.origins:
            self.add(ArrivalRoute(fact.source, fact.stream, origin, fact.queue))
        for origin, transaction in fact.going:
            number = self.number(ArrivalRoute(fact.source, fact.stream, origin, fact.queue))
            if number:
                # Nobody waits for more of a transaction of which nothing may enter.
                self.went_on(number, transaction)

    def went_on(self, number: int, transaction: int) -> None:
        """Apply the fact that more of a transaction may come by a route; of none if it is 0."""
        if transaction:
            self._going[number] = transaction
        else:
            self._going.pop(number, None)

    def queue_deleted(self, queue: int) -> None:
        """Apply the fact that there is no queue any more into which these led."""
        for number in self.into(queue):
            self._forget(number)

    def stream_ended(self, source: str, stream: int, is_empty: Callable[[int], bool]) -> None:
        """Apply the fact that nothing comes by a stream any more, nor is anything going on in it.

        A queue that is not empty may hold messages that came by it, and need its route back.
        """
        ended = [number for number, route in self._routes.items() if route[:2] == (source, stream)]
        for number in ended:
            if is_empty(self._routes[number].queue):
                self._forget(number)

    def _forget(self, number: int) -> None:
        route = self._routes.pop(number)
        del self._numbers[route]
        self._count_of.add(route.source, -1)
        self._going.pop(number, None)
        into = self._into[route.queue]
        into[route.origin].remove(number)
        if not into[route.origin]:
            del into[route.origin]
        if not into:
            del self._into[route.queue]

    @property
    def any_going(self) -> bool:
        """Whether more may come of any transaction."""
        return bool(self._going)

    def going(self, number: int) -> int:
        """The transaction of which more may come by a route; 0 for none."""
        return self._going.get(number, 0)

    def going_by(self, source: str, stream: int) -> list[tuple[int, ArrivalRoute, int]]:
        """Open transactions of a stream: route number, route, transaction."""
        return [
            (number, self._routes[number], transaction)
            for number, transaction in self._going.items()
            if self._routes[number][:2] == (source, stream)
        ]

    def going_into(self, queue: int) -> list[tuple[str, int]]:
        """Open transactions into a queue: origin and transaction."""
        return [
            (self._routes[number].origin, transaction)
            for number, transaction in self._going.items()
            if self._routes[number].queue == queue
        ]

    def into(self, queue: int) -> list[int]:
        """The numbers of all routes into a queue, rising."""
        return sorted(chain.from_iterable(self._into.get(queue, {}).values()))

    def state(self) -> list[tuple[int, ArrivalRoute]]:
        """All routes with their numbers, rising, for a checkpoint."""
        return list(self._routes.items())

    def going_state(self) -> list[tuple[int, int]]:
        """By route, the transactions of which more may come, for a checkpoint."""
        return list(self._going.items())


_CHANGED = (ArrivalRoutes.went_on,)

GOING: Final = (
    Step("none", "a message, the first of several of its transaction", _CHANGED, "going"),
    Step("none", "a message alone, or the last of its transaction", (), "none"),
    Step("none", "TruncatedTransaction", (), "none"),
    Step("none", "Passed", (), "none"),
    Step("none", "EndStream", (), "none"),
    Step("going", "a message of the same, not its last", (), "going"),
    Step("going", "a message of the same, its last", _CHANGED, "none"),
    Step("going", "a message of another one, not its last", _CHANGED, "going"),
    Step("going", "a message of another one, its last", _CHANGED, "none"),
    Step("going", "TruncatedTransaction, above what was accepted", _CHANGED, "none"),
    Step("going", "TruncatedTransaction, not beyond what was accepted", (), "going"),
    Step("going", "Passed, which does not name it", _CHANGED, "none"),
    Step("going", "Passed, which names it", (), "going"),
    Step("going", "EndStream", _CHANGED, "none"),
)
"""The transaction of one origin that a destination expects more messages of."""
