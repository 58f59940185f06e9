"""By which ways messages of other managers come here, by number.

A way is a stream (a source manager and its number there), the manager that a message was first
sent at (its origin, another one where the source forwards) and the queue it leads to. An entry
keeps the number of its way, so that what becomes of the message can be told back: to the source of
the stream, about the origin. Numbers are given in the order of facts, from 1, and never used again;
0 is no way: sent here.

A way is forgotten when its queue is deleted, or when its stream has ended and nothing is in its
queue. There are at most `WAYS_MAX`; a frame by another one is refused.

An origin's transactions come one after another by a way. So at most one is *going on*: its last
message has neither come nor been given up. All others there is no more of.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.errors import Misuse
from dray.machine import Step
from dray.model.limits import WAYS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dray.manager.facts import Accepted


class Way(NamedTuple):
    """From the origin over a stream of the source to a queue here."""

    source: str
    stream: int
    origin: str
    queue: int

    @property
    def told_origin(self) -> str:
        """The origin as a confirmation names it: empty if it is the source itself."""
        return "" if self.origin == self.source else self.origin


class Ways:
    """All ways that are in use."""

    def __init__(
        self,
        ways: Iterable[tuple[int, Way]] = (),
        going: Iterable[tuple[int, int]] = (),
        last: int = 0,
    ) -> None:
        """Begin with what a checkpoint knew."""
        self.last = last
        """The highest number that was ever given."""
        self._ways: dict[int, Way] = {}
        self._numbers: dict[Way, int] = {}
        self._into: dict[int, dict[str, list[int]]] = {}
        """Numbers by queue and origin."""
        self._going: dict[int, int] = {}
        for number, way in ways:
            self._add(number, way)
        for number, transaction in going:
            self.went_on(number, transaction)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ways)

    def add(self, way: Way) -> None:
        """Apply the fact that a way was used for the first time."""
        self.last += 1
        self._add(self.last, way)

    def _add(self, number: int, way: Way) -> None:
        self._ways[number] = way
        self._numbers[way] = number
        self._into.setdefault(way.queue, {}).setdefault(way.origin, []).append(number)

    def check_room(self, wanted: Iterable[Way]) -> None:
        """Raise `Misuse` if one of these is new and there are as many as there may be."""
        if len(self._ways) >= WAYS_MAX and not all(way in self._numbers for way in wanted):
            raise Misuse(
                f"this queue manager knows {WAYS_MAX} ways by which messages come, which is the"
                " most; delete queues here, or outgoing queues that lead here, that are not used"
            )

    def number(self, way: Way) -> int:
        """The number of a way; 0 if it was never used."""
        return self._numbers.get(way, 0)

    def numbered(self, number: int) -> Way | None:
        """The way of a number; None for 0, and for one that is forgotten."""
        return self._ways.get(number)

    def back(self, origin: str, queue: int) -> list[Way]:
        """By which ways messages of an origin came into an outgoing queue, the oldest way first."""
        return [self._ways[number] for number in self._into.get(queue, {}).get(origin, ())]

    def accepted(self, fact: Accepted) -> None:
        """Apply what a fact says of its ways."""
        for origin in fact.origins:
            self.add(Way(fact.source, fact.stream, origin, fact.queue))
        for origin, transaction in fact.going:
            number = self.number(Way(fact.source, fact.stream, origin, fact.queue))
            if number:
                # Of a transaction none of which may enter nobody waits for more.
                self.went_on(number, transaction)

    def went_on(self, number: int, transaction: int) -> None:
        """Apply the fact that more of a transaction may come by a way; of none if it is 0."""
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

        A queue that is not empty may hold messages that came by it, and need its way back.
        """
        ended = [number for number, way in self._ways.items() if way[:2] == (source, stream)]
        for number in ended:
            if is_empty(self._ways[number].queue):
                self._forget(number)

    def _forget(self, number: int) -> None:
        way = self._ways.pop(number)
        del self._numbers[way]
        self._going.pop(number, None)
        into = self._into[way.queue]
        into[way.origin].remove(number)
        if not into[way.origin]:
            del into[way.origin]
        if not into:
            del self._into[way.queue]

    @property
    def any_going(self) -> bool:
        """Whether more may come of any transaction."""
        return bool(self._going)

    def going(self, number: int) -> int:
        """The transaction of which more may come by a way; 0 for none."""
        return self._going.get(number, 0)

    def going_by(self, source: str, stream: int) -> list[tuple[int, Way, int]]:
        """Open transactions of a stream: route number, route, transaction."""
        return [
            (number, self._ways[number], transaction)
            for number, transaction in self._going.items()
            if self._ways[number][:2] == (source, stream)
        ]

    def going_into(self, queue: int) -> list[tuple[str, int]]:
        """Open transactions into a queue: origin and transaction."""
        return [
            (self._ways[number].origin, transaction)
            for number, transaction in self._going.items()
            if self._ways[number].queue == queue
        ]

    def into(self, queue: int) -> list[int]:
        """The numbers of all ways into a queue, rising."""
        return sorted(chain.from_iterable(self._into.get(queue, {}).values()))

    def state(self) -> list[tuple[int, Way]]:
        """All ways with their numbers, rising, for a checkpoint."""
        return list(self._ways.items())

    def going_state(self) -> list[tuple[int, int]]:
        """By way, the transactions of which more may come, for a checkpoint."""
        return list(self._going.items())


_CHANGED = (Ways.went_on,)

GOING: Final = (
    Step("none", "a message, the first of several of its transaction", _CHANGED, "going"),
    Step("none", "a message alone, or the last of its transaction", (), "none"),
    Step("none", "EndedShort", (), "none"),
    Step("none", "Passed", (), "none"),
    Step("none", "EndStream", (), "none"),
    Step("going", "a message of the same, not its last", (), "going"),
    Step("going", "a message of the same, its last", _CHANGED, "none"),
    Step("going", "a message of another one, not its last", _CHANGED, "going"),
    Step("going", "a message of another one, its last", _CHANGED, "none"),
    Step("going", "EndedShort, above what was accepted", _CHANGED, "none"),
    Step("going", "EndedShort, not beyond what was accepted", (), "going"),
    Step("going", "Passed, which does not name it", _CHANGED, "none"),
    Step("going", "Passed, which names it", (), "going"),
    Step("going", "EndStream", _CHANGED, "none"),
)
"""The transaction of one origin that a destination expects more messages of."""
