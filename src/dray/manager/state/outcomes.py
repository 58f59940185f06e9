"""The transactions and batches that have committed: `Manager.outcome` vouches for them (S2-3).

A bounded number is remembered, the oldest commit is forgotten first. A forgotten transaction must
never be called aborted, for a client would do it again. Numbers are leased in ranges and a client
uses its range upwards, so of each range the highest forgotten number is kept: up to it nothing is
certain any more, above it whatever is not remembered did not commit. After a restore the same holds
for every number that was leased before it.

The last batches of each query of Spark are remembered, so that a batch that comes again is known.
The query's checkpoint can replay the last two at most. A bounded number of queries is remembered;
of the caller that has the most, the query whose last commit is the oldest is forgotten first
(docs/explanation/batches.md), so no caller pushes out the queries of another. A request over HTTP
with an `Idempotency-Key` is a query with one batch.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.manager.facts import BatchCommitted
from dray.model.leases import lease_of
from dray.model.limits import (
    BATCHES_REMEMBERED,
    QUERIES_REMEMBERED,
    REQUEST_KEYS_REMEMBERED,
    TRANSACTIONS_REMEMBERED,
    UNNAMED_WRITES_REMEMBERED,
)
from dray.model.names import REQUEST_KEY, UNNAMED_WRITE
from dray.model.places import Places

_PREFIXES = (UNNAMED_WRITE, REQUEST_KEY, "")
"""Queries are remembered together by the first letters of their ids; the last has all others."""


class Outcomes:
    """The committed transactions, in the order of their commits."""

    def __init__(
        self,
        committed: Iterable[int] = (),
        forgotten: Iterable[tuple[int, int]] = (),
        certain_from: int = 0,
    ) -> None:
        """Begin with what a checkpoint knew."""
        self.certain_from = certain_from
        """Numbers below this may have committed in an incarnation that a restore has undone."""
        self._committed = dict.fromkeys(committed)
        self._forgotten = dict(forgotten)

    def __contains__(self, number: int) -> bool:
        """Whether a transaction is among the remembered ones."""
        return number in self._committed

    def add(self, number: int) -> None:
        """A transaction committed."""
        self._committed[number] = None
        if len(self._committed) > TRANSACTIONS_REMEMBERED:
            self._forget(next(iter(self._committed)))

    def may_have_forgotten(self, number: int) -> bool:
        """Whether a transaction that is not remembered may have committed all the same."""
        if number < self.certain_from:
            return True
        leased = lease_of(number)
        if number <= self._forgotten.get(leased, 0):
            return True
        full = len(self._forgotten) >= TRANSACTIONS_REMEMBERED
        return full and leased < min(self._forgotten)

    def committed(self) -> list[int]:
        """The remembered ones, for a checkpoint."""
        return list(self._committed)

    def forgotten(self) -> list[tuple[int, int]]:
        """The forgotten numbers, range by range, for a checkpoint."""
        return list(self._forgotten.items())

    def _forget(self, number: int) -> None:
        del self._committed[number]
        leased = lease_of(number)
        self._forgotten[leased] = max(number, self._forgotten.get(leased, number))
        if len(self._forgotten) > TRANSACTIONS_REMEMBERED:
            # Ranges are leased upwards: of the lowest one nobody is left to ask.
            del self._forgotten[min(self._forgotten)]


class BatchOutcome(msgspec.Struct, array_like=True, frozen=True):
    """One committed batch: the digest and number of its messages, and their transaction."""

    batch: int
    digest: bytes
    messages: int
    transaction: int
    when_us: int
    caller: str = ""
    """The caller that the query belongs to."""


class BatchOutcomes:
    """The outcomes of all queries: by the kind of their ids, then in the order of last commits.

    Writes without a query id, requests over HTTP with a key, and queries with a checkpoint are
    bounded apart, so that none pushes out another kind.
    """

    def __init__(self, known: Iterable[tuple[str, list[BatchOutcome]]] = ()) -> None:
        """Begin with what a checkpoint knew."""
        self._by_prefix = {each: RememberedQueries() for each in _PREFIXES}
        for query, outcomes in known:
            self._by_prefix[_prefix_of(query)].put(query, list(outcomes))

    def of(self, query: str) -> list[BatchOutcome]:
        """The remembered batches of a query, the oldest first."""
        return self._by_prefix[_prefix_of(query)].outcomes.get(query, [])

    def owner(self, query: str) -> str | None:
        """The caller that a query belongs to, if it is remembered."""
        known = self.of(query)
        return known[-1].caller if known else None

    def add(self, fact: BatchCommitted) -> None:
        """A batch was committed."""
        prefix, known = _prefix_of(fact.query), self.of(fact.query)
        outcome = BatchOutcome(
            fact.batch, fact.digest, fact.messages, fact.transaction, fact.when_us, fact.caller
        )
        queries = self._by_prefix[prefix]
        queries.put(fact.query, [*known, outcome][-BATCHES_REMEMBERED:])
        if len(queries.outcomes) > _remembered(prefix):
            queries.remove(queries.callers.oldest_of_most())

    def state(self) -> list[tuple[str, list[BatchOutcome]]]:
        """Everything, for a checkpoint."""
        return [
            (query, list(outcomes))
            for queries in self._by_prefix.values()
            for query, outcomes in queries.outcomes.items()
        ]


class RememberedQueries:
    """Queries with ids of one kind, in the order of last commits, and those of each caller."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[BatchOutcome]] = {}
        self.callers: Places[str] = Places()

    def put(self, query: str, outcomes: list[BatchOutcome]) -> None:
        """Remember a query as the last that committed a batch."""
        self.remove(query)
        self.outcomes[query] = outcomes
        self.callers.add(query, outcomes[-1].caller)

    def remove(self, query: str) -> None:
        """Forget a query, if it is remembered."""
        self.outcomes.pop(query, None)
        self.callers.discard(query)


def _remembered(prefix: str) -> int:
    """The number of remembered queries whose ids begin so."""
    if prefix == UNNAMED_WRITE:
        return UNNAMED_WRITES_REMEMBERED
    return REQUEST_KEYS_REMEMBERED if prefix == REQUEST_KEY else QUERIES_REMEMBERED


def _prefix_of(query: str) -> str:
    return next(each for each in _PREFIXES if query.startswith(each))
