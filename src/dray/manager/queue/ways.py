"""By which ways messages of other managers come here, by number.

A way is a stream (a source manager and its number there), the manager that a message was first
sent at (its origin, another one where the source forwards) and the queue it leads to. An entry
keeps the number of its way, so that what becomes of the message can be told back: to the source of
the stream, about the origin. Numbers are given in the order of facts, from 1; 0 is no way: sent
here.

An origin's transactions come one after another by a way. So at most one is *going on*: its last
message has neither come nor been given up. All others there is no more of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
    """All ways that ever were used."""

    def __init__(self, ways: Iterable[Way] = (), going: Iterable[tuple[int, int]] = ()) -> None:
        """Begin with what a checkpoint knew."""
        self._ways: list[Way] = []
        self._numbers: dict[Way, int] = {}
        self._back: dict[tuple[str, int], list[Way]] = {}
        self._going: dict[int, int] = {}
        for way in ways:
            self.add(way)
        for number, transaction in going:
            self.went_on(number, transaction)

    def __len__(self) -> int:
        """How many there are: the highest number."""
        return len(self._ways)

    def add(self, way: Way) -> None:
        """Apply the fact that a way was used for the first time."""
        self._ways.append(way)
        self._numbers[way] = len(self._ways)
        self._back.setdefault((way.origin, way.queue), []).append(way)

    def number(self, way: Way) -> int:
        """The number of a way; 0 if it was never used."""
        return self._numbers.get(way, 0)

    def numbered(self, number: int) -> Way | None:
        """The way of a number; None for 0."""
        return self._ways[number - 1] if number else None

    def back(self, origin: str, queue: int) -> list[Way]:
        """By which ways messages of an origin came into an outgoing queue, the oldest way first."""
        return self._back.get((origin, queue), [])

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
        """Apply the fact that there is no queue any more into which something could go on."""
        for number in self.into(queue):
            self._going.pop(number, None)

    @property
    def any_going(self) -> bool:
        """Whether more may come of any transaction."""
        return bool(self._going)

    def going(self, number: int) -> int:
        """The transaction of which more may come by a way; 0 for none."""
        return self._going.get(number, 0)

    def going_by(self, source: str, stream: int) -> list[tuple[int, Way, int]]:
        """What is going on in a stream: number of the way, the way, the transaction."""
        return [
            (number, self._ways[number - 1], transaction)
            for number, transaction in self._going.items()
            if self._ways[number - 1][:2] == (source, stream)
        ]

    def going_into(self, queue: int) -> list[tuple[str, int]]:
        """Of what is going on into a queue: origin and transaction."""
        return [
            (self._ways[number - 1].origin, transaction)
            for number, transaction in self._going.items()
            if self._ways[number - 1].queue == queue
        ]

    def into(self, queue: int) -> list[int]:
        """The numbers of all ways into a queue."""
        return [number for number, way in enumerate(self._ways, 1) if way.queue == queue]

    def state(self) -> list[Way]:
        """All ways, for a checkpoint."""
        return list(self._ways)

    def going_state(self) -> list[tuple[int, int]]:
        """By way, the transactions of which more may come, for a checkpoint."""
        return list(self._going.items())
