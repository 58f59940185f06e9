"""Clients of the benchmark of small messages in Spark: one session that reads, and one table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dray
from benches.processes import peak, reset_peak
from benches.processor_time import ProcessorTime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE = 5_000


def read_rows(
    url: str, manager: int, folder: str, *, rows: int, size: int, rounds: int
) -> dict[str, Any]:
    """Read a queue of small messages, and the same rows as Parquet, in turns, to no sink.

    Gives rows a second of all processors, `manager`'s included; the session has read both before.
    """
    from dray.spark import spark_session

    _fill(url, rows, size)
    rates: dict[str, list[float]] = {"dray": [], "parquet": []}
    with ProcessorTime([os.getpid(), manager]) as watched, spark_session() as session:
        reader = session.read.format("dray").option("url", url).option("queue", "rows")
        queue = reader.load()
        files = str(Path(folder) / "parquet")
        queue.write.parquet(files)
        parquet = session.read.parquet(files)
        for frame in (queue, parquet):
            _read(frame)
        for _ in range(rounds):
            for name, frame in (("dray", queue), ("parquet", parquet)):
                before = watched.seconds
                _read(frame)
                rates[name].append(rows / max(watched.seconds - before, 0.001))
    return rates


def open_table(folder: str, *, rows: int, commits: int) -> dict[str, float]:
    """Open a landed table, and look one message up; the seconds, and the growth of memory."""
    from dray.spark.landing.table import LandedTable, Reached
    from dray.spark.schema import LANDED

    source, each = "a" * 32, rows // commits
    place = Path(folder) / "table"
    table = LandedTable(place)
    empty = {field.name: pa.nulls(each, field.type) for field in LANDED}
    for first in range(0, rows, each):
        numbers = pa.array(np.arange(first, first + each)).cast(pa.string())
        ids = pc.binary_join_element_wise(source, numbers, "\\")
        table.commit(pa.table({**empty, "sequence_id": ids}, schema=LANDED), Reached())
    del table, empty
    asked = pa.array([f"{source}\\{rows + number}" for number in range(1000)])

    def new() -> None:
        assert not any(LandedTable(place).already_landed(asked))

    def known() -> None:
        replayed = pa.array([f"{source}\\{rows - 1 - number}" for number in range(1000)])
        assert all(LandedTable(place).already_landed(replayed))

    told: dict[str, float] = {}
    for name, call in (("new", new), ("known", known)):
        seconds, growth = _measured(call)
        told |= {f"{name}_s": seconds, f"{name}_bytes": growth}
    return told


def _measured(call: Callable[[], None]) -> tuple[float, int]:
    pa.default_memory_pool().release_unused()
    before = reset_peak("self")
    began = time.perf_counter()
    call()
    return time.perf_counter() - began, peak("self") - before


def _read(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _fill(url: str, rows: int, size: int) -> None:
    body = os.urandom(size)
    with dray.connect(url) as manager:
        queue = manager.create_queue("rows")
        for _ in range(rows // _AT_ONCE):
            queue.send_many([body] * _AT_ONCE)
