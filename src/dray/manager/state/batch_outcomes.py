"""The last batches that each query has committed: by these a batch is known that comes again.

A query is Spark's, and its checkpoint can replay the last two batches at most. A bounded number of
queries is remembered; the query whose last commit is the oldest is forgotten first. Made by facts
and by nothing else; docs/explanation/batches.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.manager.facts import BatchCommitted
from dray.model.limits import BATCHES_REMEMBERED, QUERIES_REMEMBERED


class BatchOutcome(msgspec.Struct, array_like=True, frozen=True):
    """One committed batch: the digest and number of its messages, and their transaction."""

    batch: int
    digest: bytes
    messages: int
    transaction: int
    when_us: int


class BatchOutcomes:
    """The outcomes of all queries, in the order of their last commits."""

    def __init__(self, known: Iterable[tuple[str, list[BatchOutcome]]] = ()) -> None:
        """Begin with what a checkpoint knew."""
        self._queries = {query: list(outcomes) for query, outcomes in known}

    def of(self, query: str) -> list[BatchOutcome]:
        """The remembered batches of a query, the oldest first."""
        return self._queries.get(query, [])

    def add(self, fact: BatchCommitted) -> None:
        """A batch was committed."""
        outcomes = self._queries.pop(fact.query, [])
        outcomes.append(
            BatchOutcome(fact.batch, fact.digest, fact.messages, fact.transaction, fact.when_us)
        )
        self._queries[fact.query] = outcomes[-BATCHES_REMEMBERED:]
        if len(self._queries) > QUERIES_REMEMBERED:
            del self._queries[next(iter(self._queries))]

    def state(self) -> list[tuple[str, list[BatchOutcome]]]:
        """Everything, for a checkpoint."""
        return [(query, list(outcomes)) for query, outcomes in self._queries.items()]
