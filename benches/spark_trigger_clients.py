"""A client of the benchmark of triggers: micro-batches of `format("dray")` and of a rate source."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import dray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 100
"""In each micro-batch, of either source."""
_TRIGGERS = 20
_FIRST = 5
"""The first micro-batches of a query start its processes."""
_LOOK_S = 0.05
_WITHIN_S = 300


def trigger_queries(url: str, folder: str, *, rounds: int) -> dict[str, list[float]]:
    """The milliseconds of a trigger, by source and sink: a median for each round.

    The rate source makes rows for each micro-batch, so that it never waits for its second. It runs
    in Java alone; "rate in Python" is the same with a task of Python that gives its rows on.
    """
    from dray.spark import spark_session

    _fill(url)
    told: dict[str, list[float]] = {}
    with spark_session() as session:
        for turn in range(rounds + 1):
            for sink in ("foreachBatch", "noop"):
                for name, rows in _sources(session, url).items():
                    checkpoint = Path(folder) / f"{turn}-{sink}-{name}"
                    took = _triggers(rows, sink, checkpoint)
                    # Java is warm when it has run each query once.
                    if turn:
                        told.setdefault(f"{name}, {sink}", []).append(took)
    return told


def _triggers(rows: DataFrame, sink: str, checkpoint: Path) -> float:
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(_nothing) if sink == "foreachBatch" else writer.format(sink)
    query = writer.trigger(processingTime="0 seconds").start()
    until = time.monotonic() + _WITHIN_S
    try:
        while not query.lastProgress or query.lastProgress["batchId"] < _TRIGGERS:
            assert query.isActive, query.exception()
            assert time.monotonic() < until, "a query makes no progress"
            time.sleep(_LOOK_S)
        progress = [each for each in query.recentProgress if each["batchId"] >= _FIRST]
    finally:
        query.stop()
    took = [float(each["durationMs"]["triggerExecution"]) for each in progress]
    return statistics.median(took)


def _nothing(_rows: DataFrame, _batch_id: int) -> None:
    """A function for `foreachBatch` that reads nothing."""


def _sources(session: SparkSession, url: str) -> dict[str, DataFrame]:
    rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS).load()
    in_python = rate.mapInArrow(lambda batches: batches, rate.schema)
    return {"rate": rate, "rate in Python": in_python, "dray": _dray(session, url)}


def _dray(session: SparkSession, url: str) -> DataFrame:
    from dray.spark.source.data_source import DraySource

    session.dataSource.register(DraySource)
    reader = session.readStream.format("dray").option("url", url).option("queue", "triggers")
    return reader.option("maxOffsetsPerTrigger", _ROWS).load()


def _fill(url: str) -> None:
    with dray.connect(url) as manager:
        queue = manager.create_queue("triggers")
        queue.send_many([b"x" * _ROWS] * (_ROWS * (_TRIGGERS + 20)))
