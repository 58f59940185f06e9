"""Reads the ranges of one micro-batch from the plan of Spark, in the driver.

A source in Python is not told about its query; the driver sees the offsets of each
`format("dray")` in the plan of the batch that it hands to `foreachBatch`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.errors import InvalidConfiguration
from dray.spark.source.offsets import Offsets, QueueBirth, QueueSpan, receipt_in, spans
from dray.spark.source.options import Options, read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"
_SCAN = "StreamingDataSourceV2ScanRelation"


class PlannedSpan(NamedTuple):
    """A range of a queue, and the receipt that the queue manager gave when it was planned."""

    span: QueueSpan
    receipt: bytes

    @property
    def birth(self) -> QueueBirth:
        """The queue of the range, and its birth."""
        return QueueBirth(self.span.manager_id, self.span.queue, self.span.born)


class PlannedSource(NamedTuple):
    """The ranges that one `format("dray")` of the query reads in a batch."""

    options: Options
    spans: list[PlannedSpan]


def planned_sources(rows: DataFrame) -> tuple[str, list[PlannedSource]]:
    """The query that has called `foreachBatch`, and what its sources read in this batch.

    The query is empty, and there are no sources, outside of a query. Raises
    `InvalidConfiguration` on Spark Connect.
    """
    java: Any = getattr(rows, "_jdf", None)
    if java is None:
        raise InvalidConfiguration(
            "settling() cannot see the offsets of a query on Spark Connect; run the query in a"
            " classic session, or settle the queue yourself with queue.settle"
        )
    session: Any = rows.sparkSession
    query_id = session.sparkContext.getLocalProperty(_QUERY_ID)
    if not query_id:
        return "", []
    queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    uuid = session.sparkContext._jvm.java.util.UUID.fromString(query_id)  # noqa: SLF001
    leaves = queries.get(uuid).lastExecution().logical().collectLeaves()
    found = (leaves.apply(at) for at in range(leaves.size()))
    return str(query_id), [_source_of(leaf) for leaf in found if _is_ours(leaf)]


def _is_ours(leaf: Any) -> bool:
    is_scan = leaf.getClass().getSimpleName() == _SCAN
    return is_scan and bool(leaf.relation().table().name() == "dray")


def _source_of(leaf: Any) -> PlannedSource:
    options = read_options(dict(leaf.relation().options()))
    if leaf.endOffset().isEmpty():
        # A source that has nothing new in this batch.
        return PlannedSource(options, [])
    start: Offsets = (
        {} if leaf.startOffset().isEmpty() else json.loads(leaf.startOffset().get().json())
    )
    end: Offsets = json.loads(leaf.endOffset().get().json())
    return PlannedSource(options, list(_planned(start, end)))


def _planned(start: Offsets, end: Offsets) -> Iterator[PlannedSpan]:
    for span in spans(start, end):
        receipt = receipt_in(end, QueueBirth(span.manager_id, span.queue, span.born))
        yield PlannedSpan(span, receipt)
