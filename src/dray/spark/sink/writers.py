"""The writers behind `df.writeStream.format("dray")` and `df.write.format("dray")`.

`write` runs in the tasks and stages their rows; `commit` runs on the driver and makes the rows of
those tasks visible whose results the driver has. docs/explanation/batches.md tells what each crash
leaves behind.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dray.client.connections.threads import run
from dray.errors import ConnectionLost, InvalidConfiguration
from dray.model.names import UNNAMED_WRITE
from dray.spark.managers import Managers
from dray.spark.sink.batches import BatchName
from dray.spark.sink.outgoing_rows import RowSender, add_digests, outgoing_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from dray.client.blocking.manager import Manager
    from dray.spark.sink.sink_options import SinkOptions

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskStaged(WriterCommitMessage):
    """The word of a task to the driver. `transaction_id` is empty if the task had no rows."""

    query: str
    transaction_id: str
    digest: bytes
    count: int


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        """Connect to nothing yet."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in its tasks"
        query = self._options.query_id or context.getLocalProperty(_QUERY_ID)
        batch = context.getLocalProperty(_BATCH_ID)
        if not query or batch is None:
            raise InvalidConfiguration(
                "Spark tells the task neither query id nor batch id; use a PySpark of 4.2 or 4.3"
            )
        return _stage(self._options, BatchName(query, int(batch)), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of all tasks visible."""
        _commit(self._options, _words(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what tasks have staged; the messages of failed tasks are None."""
        _abort(self._options, _words(messages), batchId)


class BatchSink(DataSourceArrowWriter):
    """Writes a table."""

    def __init__(self, options: SinkOptions) -> None:
        """Draw a name for a write that has none; this object goes to tasks and driver."""
        self._options = options
        self._query = options.query_id or f"{UNNAMED_WRITE}{secrets.token_hex(16)}"
        self._batch = options.batch_id or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        """Stage the rows of a task."""
        return _stage(self._options, BatchName(self._query, self._batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        _commit(self._options, _words(messages), self._batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what tasks have staged; the messages of failed tasks are None."""
        _abort(self._options, _words(messages), self._batch)


def _words(messages: Iterable[WriterCommitMessage | None]) -> list[TaskStaged]:
    return [each for each in messages if isinstance(each, TaskStaged)]


def _stage(options: SinkOptions, batch: BatchName, batches: Iterable[pa.RecordBatch]) -> TaskStaged:
    with _manager_at(options) as manager, manager.transaction() as transaction:
        sender = RowSender(manager, transaction)
        for each in batches:
            for row in outgoing_rows(each, options.queue):
                sender.send(row)
        if not sender.count:
            transaction.abort()
            return TaskStaged(batch.query, "", sender.digest, 0)
        run(transaction.awaited.stage(batch.query, batch.number))
        return TaskStaged(batch.query, transaction.id, sender.digest, sender.count)


def _commit(options: SinkOptions, words: list[TaskStaged], batch_id: int) -> None:
    if not words:
        return
    staged = [each.transaction_id for each in words if each.transaction_id]
    digest = add_digests(each.digest for each in words)
    with _manager_at(options) as manager:
        BatchName(words[0].query, batch_id).commit(manager, digest, staged)


def _abort(options: SinkOptions, words: list[TaskStaged], batch_id: int) -> None:
    staged = [each.transaction_id for each in words if each.transaction_id]
    if not staged:
        return
    try:
        with _manager_at(options) as manager:
            BatchName(words[0].query, batch_id).drop(manager, staged)
    except ConnectionLost as error:
        # The next commit of the query drops it, or its age.
        logger.warning("what failed tasks have staged stays for now: %s", error)


@contextmanager
def _manager_at(options: SinkOptions) -> Iterator[Manager]:
    managers = Managers(options.credentials)
    try:
        yield managers.at(options.url)
    finally:
        managers.close()
