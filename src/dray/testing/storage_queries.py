"""Spark queries of the storage workload: tasks stage rows for batches, drivers commit them.

Some tasks stage for a batch that is committed, some drivers commit a batch again, and some have no
word of a task that has staged. docs/explanation/batches.md says what comes of each.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dray.model.ids import ManagerId, join_id, split_id
from dray.testing.harness import MANAGER_ID, ManagerHarness, refused_exactly
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_consequences import Consequences
from dray.testing.storage_model import Contents, Gathered
from dray.testing.storage_recording import Recording
from dray.testing.storage_records import Letters
from dray.wire import batch_frames

STAGES_NEW, COMMITS_AGAIN, NAMED = 0.8, 0.2, 0.7
"""Chances that a task is of a new batch, a driver commits again, and it has the word of a task."""
QUERIES = ("one query", "another query")


class Queries:
    """Tasks and drivers of two queries."""

    def __init__(
        self, rng: Random, harness: ManagerHarness, recording: Recording, follow: Consequences
    ) -> None:
        """Go on from what the contents say is staged and committed."""
        self._rng = rng
        self._harness = harness
        self._recording = recording
        self._contents: Contents = follow.contents
        self._follow = follow

    def stage(self, session: int, letters: Letters, send_in: Callable[[Gathered], None]) -> None:
        """A task sends rows and stages them for the next batch, or for one that is committed."""
        query = self._rng.choice(QUERIES)
        last = max(self._contents.batches.get(query, {}), default=-1)
        batch = last + 1 if last < 0 or self._rng.random() < STAGES_NEW else last
        transaction = Gathered(letters.number(), session, batch=(query, batch))
        self._recording.known.tried.append(transaction.number)
        # Rows that are sent take room before they are staged.
        self._contents.for_batches[transaction.number] = transaction
        for _ in range(self._rng.randrange(1, 3)):
            send_in(transaction)
        if not transaction.frames:
            del self._contents.for_batches[transaction.number]
            return
        head = batch_frames.StageForBatch(transaction.number, transaction.frames, query, batch)
        with refused_exactly(transaction.fails):
            answer, _ = self._harness.ask(session, head)
            assert isinstance(answer, batch_frames.BatchIs)
            if answer.committed != (batch == last):
                raise BrokenPromiseError(f"batch {batch} of {query}, last {last}: {answer}")
        if transaction.fails or batch == last:
            del self._contents.for_batches[transaction.number]
            self._follow.let_go(transaction)

    def commit(self, session: int, letters: Letters) -> None:
        """A driver commits some of what is staged for a batch; or the last batch, once more."""
        query = self._rng.choice(QUERIES)
        known = self._contents.batches.get(query, {})
        last = max(known, default=-1)
        digest, number = self._rng.randbytes(8), letters.number()
        if known and self._rng.random() < COMMITS_AGAIN:
            again = batch_frames.CommitBatch(query, last, known[last][0], number, [])
            self._ask(session, again, known[last])
            return
        staged = [
            each for each in self._contents.for_batches.values() if each.batch == (query, last + 1)
        ]
        named = [each for each in staged if self._rng.random() < NAMED]
        names = [join_id(ManagerId(MANAGER_ID), each.number) for each in named]
        head = batch_frames.CommitBatch(query, last + 1, digest, number, list(names))
        self._ask(session, head, (digest, number))
        for each in staged:
            del self._contents.for_batches[each.number]
        self._follow.commit(joined(number, named))
        both = {**known, last + 1: (digest, number)}
        self._contents.batches[query] = dict(sorted(both.items())[-2:])
        self._recording.known.tried.append(number)
        self._recording.known.committed_in[number] = self._contents.turn + 1

    def queue_deleted(self, name: str) -> None:
        """Tasks that have staged something for a deleted queue have staged it in vain."""
        staged = self._contents.for_batches
        for number in [each.number for each in staged.values() if name in each.sends]:
            del staged[number]

    def _ask(
        self, session: int, head: batch_frames.CommitBatch, outcome: tuple[bytes, int]
    ) -> None:
        answer, _ = self._harness.ask(session, head)
        assert isinstance(answer, batch_frames.BatchIs)
        if (answer.digest, split_id(answer.transaction_id)[1]) != outcome:
            raise BrokenPromiseError(f"{head} was answered with {answer}")


def joined(number: int, tasks: list[Gathered]) -> Gathered:
    """Many tasks as the one transaction that their batch is."""
    whole = Gathered(number)
    for each in tasks:
        for name, keys in each.sends.items():
            whole.sends.setdefault(name, []).extend(keys)
    return whole
