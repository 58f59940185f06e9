"""Settles what a streaming query has read, for `foreachBatch`, whatever it does with the rows.

    write(rows, batch)      the caller's; afterwards everything it needs is durable
    note at each manager    the batch and the digest of its offset range, remembered like a batch
                            of the sink (docs/explanation/batches.md)
    settle                  exactly the offset range leaves the queues

If Spark runs a batch again, the rows may be gone. Then the note says that `write` was done: it is
not called again, and the settling goes on. A batch of one id over another range is an error.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from blake3 import blake3

from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.handlers import check_takes_both, refuse_coroutine_function
from dray.client.calls.public_calls import checked
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.client.connections.threads import run
from dray.errors import (
    BatchMismatch,
    InvalidConfiguration,
    LargeMessageHole,
    MessageNotFound,
    QueueNotFound,
    QueueRecreated,
)
from dray.model.classes import TransactionStatus
from dray.spark.failure import STARTS_MAX, WORKER_TOO_SLOW
from dray.spark.landing.settler import take_large
from dray.spark.managers import Managers, patiently
from dray.spark.query_end import told_briefly
from dray.spark.sink.batches import BatchName
from dray.spark.source.large import large_pages, opened_in, sequence_id_of
from dray.spark.source.planned import PlannedSource, PlannedSpan, planned_sources
from dray.spark.source.ranges import check_still, is_there, measure, warn_of_claim
from dray.wire.frames import Done
from dray.wire.message_frames import Settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue
    from dray.spark.source.options import Options

logger = logging.getLogger(__name__)

Write = Callable[["DataFrame", int], object]
_PAUSE_S = 0.3


@checked
def settling(write: Write) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that calls `write(rows, batch_id)`, then settles the batch.

    It settles the offset range of the batch, whatever rows and columns `write` kept. After a crash
    `write` may be called again with the same batch, so it has to know its batches (the recipes are
    in "Settle what a query has read"); once a batch is noted as written, it is not called again.
    Raises `BatchMismatch` for a batch that was settled over another range, and
    `InvalidConfiguration` if the query does not read from `format("dray")`, or on Spark Connect.
    """
    # Rows that it does not write would be settled all the same, and be lost.
    check_takes_both(write, "write", "rows and the id of their batch")
    refuse_coroutine_function(write, "write")

    @told_briefly()
    def write_and_settle(rows: DataFrame, batch_id: int) -> None:
        query, sources = planned_sources(rows)
        if not sources:
            raise InvalidConfiguration(
                "settling() is for foreachBatch of a streaming query that reads from"
                " format('dray'); this one does not"
            )
        batch = _BatchOfSource(query, batch_id, sources)
        try:
            if not batch.is_written():
                _write_patiently(partial(write, rows, batch_id))
            # Done again after a crash: it may have come between the notes at two managers.
            batch.note_written()
            batch.settle()
        finally:
            batch.close()

    return write_and_settle


def _write_patiently(write: Callable[[], object]) -> None:
    """Call `write` until Spark has started its workers in time: it waits ten seconds for each."""
    for left in reversed(range(STARTS_MAX)):
        try:
            write()
        except Exception as error:
            # Spark raises it as one of Java's, or as one of its own that has the text.
            if not left or WORKER_TOO_SLOW not in str(error):
                raise
            logger.warning("a Python worker of Spark took too long to start; once more")
        else:
            return


class _BatchOfSource:
    """One batch: its note at each manager that it read from, and its ranges."""

    def __init__(self, query: str, batch_id: int, sources: list[PlannedSource]) -> None:
        self._name = BatchName(f"settling {query}", batch_id)
        told = sorted(tuple(each.span) for source in sources for each in source.spans)
        self._digest = blake3(json.dumps(told).encode()).digest()
        self._sources = sources
        self._managers = [Managers(each.options.credentials) for each in sources]

    def is_written(self) -> bool:
        """Whether any manager has the note: then `write` had returned."""
        written = False
        for manager in self._each_manager():
            outcome = self._name.outcome(manager)
            if outcome.committed and outcome.digest == self._digest:
                written = True
            elif outcome.committed or outcome.last > self._name.number:
                raise BatchMismatch(
                    f"batch {self._name.number} of this query was settled over another range of its"
                    " queues, and messages of that range may be gone; look at the written rows,"
                    " and start the query with a new checkpoint",
                    query=self._name.query,
                    batch=self._name.number,
                )
        return written

    def note_written(self) -> None:
        """Note at each manager that the batch is written, before anything leaves a queue."""
        for manager in self._each_manager():
            self._name.commit(manager, self._digest, [])

    def settle(self) -> None:
        """Take the ranges from their queues."""
        for manager, options, planned in self._each_span():
            queue = manager.queue(planned.span.queue, raw=True)
            try:
                if options.content == "large":
                    _settle_large(manager, queue, planned, options.claim_timeout_s)
                else:
                    _settle_messages(queue, planned, options.claim_timeout_s)
            except QueueRecreated:
                if not options.accept_new_queue:
                    raise
            except QueueNotFound:
                # Nothing is left to settle; the next batch says whether the query goes on without.
                logger.warning("queue %r was deleted after it was read", queue.name)

    def close(self) -> None:
        """Close the connections."""
        for managers in self._managers:
            managers.close()

    def _each_manager(self) -> Iterator[Manager]:
        seen: set[str] = set()
        for manager, _, planned in self._each_span():
            if planned.span.manager_id not in seen:
                seen.add(planned.span.manager_id)
                yield manager

    def _each_span(self) -> Iterator[tuple[Manager, Options, PlannedSpan]]:
        for managers, (options, wanted) in zip(self._managers, self._sources, strict=True):
            by_id = _by_id(managers, options) if wanted else {}
            for planned in wanted:
                manager_id = planned.span.manager_id
                if manager_id not in by_id:
                    raise InvalidConfiguration(
                        f"the batch was read from the queue manager {manager_id}, and none of"
                        f" the urls ({', '.join(options.urls)}) leads to it; add its url"
                    )
                yield by_id[manager_id], options, planned


def _by_id(managers: Managers, options: Options) -> dict[str, Manager]:
    found = {}
    for url in options.urls:
        manager = managers.at(url)
        found[str(patiently(manager.info).id)] = manager
    return found


def _settle_messages(queue: Queue, planned: PlannedSpan, claim_timeout_s: float) -> None:
    """Take all plain messages of a range; wait for those that receivers hold."""
    span = planned.span

    def settle() -> None:
        check_still(queue, planned.birth, planned.receipt)
        queue.handle.call(
            lambda number: Settle(number, span.upto, 0, span.born, span.after, plain=True),
            Done,
            wait_s=ANSWER_GRACE_S,
        )

    begun = warned = time.monotonic()
    while True:
        patiently(settle)
        held = patiently(lambda: measure(queue, span.after, upto=span.upto, plain=True)).held
        if not held or held > span.upto:
            break
        if time.monotonic() - warned > claim_timeout_s:
            warned = time.monotonic()
            warn_of_claim(queue.name, held, warned - begun)
        time.sleep(_PAUSE_S)
    if measure(queue, span.after, upto=span.upto, large=True).last:
        logger.warning(
            "queue %r has large messages, which stay there: read it with content=large",
            queue.name,
        )


def _settle_large(
    manager: Manager, queue: Queue, planned: PlannedSpan, claim_timeout_s: float
) -> None:
    """Take each large message of a range; one with a hole is rejected, and its sender is told."""
    span = planned.span

    def settle() -> None:
        for entries in large_pages(queue, span.after):
            for entry in entries:
                if entry.first_lookup_id > span.upto:
                    return
                # After the list: so the message is one of the queue that was read.
                check_still(queue, planned.birth, planned.receipt)
                while not _is_taken(manager, queue, sequence_id_of(entry)):
                    if not is_there(queue, entry.first_lookup_id, claim_timeout_s):
                        break

    patiently(settle)


def _is_taken(manager: Manager, queue: Queue, sequence_id: str) -> bool:
    """Take a large message; false if it is not there, or a receiver holds it."""
    transaction = manager.transaction()
    try:
        opened_in(queue, *take_large(queue, transaction, sequence_id), sequence_id)
        transaction.commit()
    except LargeMessageHole:
        # To receive it removes its parts and tells its sender.
        return True
    except Unreadable as unreadable:
        logger.warning("%s", unreadable.told(run(unreadable.set_aside())))
        return True
    except MessageNotFound:
        return False
    finally:
        if transaction.status is TransactionStatus.PENDING:
            transaction.abort()
    return True
