"""The checks of an audit: each gives findings, rows of `FINDINGS`.

Numbers of streams are not kept with messages (decision 0229), so order and completeness are proven
by positions: the positions of a queue rise by one for each message, and no position is given twice.
No check sees a message that left its queue before the first or behind the last one that landed,
unless its transaction shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dray.errors import StoreError
from dray.model.classes import MessageClass
from dray.model.ids import split_id
from dray.model.names import DEAD_LETTER_QUEUES
from dray.spark.auditing.sources import landed_rows, left_messages, number_of, waiting_positions
from dray.spark.landing.places import payloads_in, payloads_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dray.spark.auditing.sources import AuditSources

FINDINGS = pa.schema(
    [
        ("kind", pa.string()),
        ("explained", pa.bool_()),
        ("origin", pa.string()),
        ("manager_id", pa.string()),
        ("queue", pa.string()),
        ("queue_born", pa.int64()),
        ("first_lookup_id", pa.int64()),
        ("last_lookup_id", pa.int64()),
        ("id", pa.string()),
        ("transaction_id", pa.string()),
        ("detail", pa.string()),
    ]
)
"""A finding. `kind` is duplicate, overlap, gap, order, transaction, digest, hole or payload.
`explained` findings are in order: the audit knows what became of the message."""

_QUEUE = ["manager_id", "queue", "queue_born"]
_Row = dict[str, Any]
_TASKS = 16
"""Payload files are read by so many tasks; a message of any size is read by one."""


def find_all(spark: SparkSession, sources: AuditSources) -> pa.Table:
    """Run all checks."""
    rows = landed_rows(spark, sources).cache()
    try:
        left = left_messages(spark, sources)
        waiting = waiting_positions(spark, sources)
        found = [
            *_holes(rows),
            *_duplicates(rows),
            *_gaps(rows, waiting, left),
            *_disorder(rows),
            *_torn(rows, waiting, left),
            *_payloads(rows),
            *_extra_files(rows, sources),
        ]
    finally:
        rows.unpersist()
    return pa.Table.from_pylist(
        [{name: each.get(name) for name in FINDINGS.names} for each in found], schema=FINDINGS
    )


def _finding(kind: str, row: Any, detail: str, *, explained: bool = False) -> _Row:
    given = row.asDict() if hasattr(row, "asDict") else dict(row)
    return given | {"kind": kind, "explained": explained, "detail": detail}


def _holes(rows: DataFrame) -> Iterator[_Row]:
    for row in rows.where("state = 'hole'").withColumnRenamed("sequence_id", "id").collect():
        missing = ", ".join(row["missing"])
        yield _finding("hole", row, f"{missing} missing; the table names it", explained=True)


def _duplicates(rows: DataFrame) -> Iterator[_Row]:
    from pyspark.sql import functions as f

    counted = (
        rows.groupBy("sequence_id")
        .agg(
            *(f.first(name).alias(name) for name in [*_QUEUE, "origin", "transaction_id"]),
            f.min("first_lookup_id").alias("first_lookup_id"),
            f.max("last_lookup_id").alias("last_lookup_id"),
            f.count("*").alias("times"),
        )
        .where("times > 1")
        .withColumnRenamed("sequence_id", "id")
    )
    for row in counted.collect():
        yield _finding("duplicate", row, f"it has {row['times']} rows")


def _ranges(rows: DataFrame) -> DataFrame:
    """The positions of rows as ranges; those of a hole are somewhere between its ends."""
    from pyspark.sql import functions as f

    ends = f.array(f.array("first_lookup_id", "last_lookup_id"))
    ranges = f.when(f.size("lookup_ranges") > 0, f.col("lookup_ranges")).otherwise(ends)
    return rows.select(
        *_QUEUE, f.col("sequence_id").alias("id"), "state", f.explode(ranges).alias("range")
    ).select(
        *_QUEUE, "id", "state",
        f.col("range")[0].alias("first"), f.col("range")[1].alias("last"),
    )  # fmt: skip


def _gaps(rows: DataFrame, waiting: DataFrame | None, left: DataFrame | None) -> Iterator[_Row]:
    """Positions that no row has, and positions that two rows have."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # A row that is there twice is told as a duplicate, and not once more for its positions.
    ranges = _ranges(rows.dropDuplicates(["sequence_id"]))
    if waiting is not None:
        there = waiting.select(
            *_QUEUE, f.lit(None).cast("string").alias("id"), f.lit("waiting").alias("state"),
            f.col("lookup_id").alias("first"), f.col("lookup_id").alias("last"),
        )  # fmt: skip
        ranges = ranges.unionByName(there.join(rows.select(*_QUEUE).distinct(), _QUEUE, "semi"))
    before = Window.partitionBy(*_QUEUE).orderBy("first").rowsBetween(Window.unboundedPreceding, -1)
    seen = ranges.withColumn("reached", f.max("last").over(before))
    gaps = seen.where("first > reached + 1").select(
        *_QUEUE,
        (f.col("reached") + 1).alias("first_lookup_id"),
        (f.col("first") - 1).alias("last_lookup_id"),
    )
    found = gaps.orderBy(*_QUEUE, "first_lookup_id").collect()
    yield from _explain_gaps(found, rows, left)
    twice = seen.where("first <= reached and state = 'landed' and id is not null")
    for row in twice.collect():
        if row["state"] == "landed" and not _is_of_hole(rows, row):
            given = row.asDict() | {"first_lookup_id": row["first"], "last_lookup_id": row["last"]}
            yield _finding("overlap", given, "another row has the same positions")


def _is_of_hole(rows: DataFrame, row: Any) -> bool:
    """Whether a position lies between the ends of a message with a hole, where others may lie."""
    at = row["first"]
    holes = rows.where("state = 'hole'").where(
        f"first_lookup_id <= {at} and last_lookup_id >= {at}"
    )
    return not holes.isEmpty()


def _explain_gaps(gaps: list[Any], rows: DataFrame, left: DataFrame | None) -> Iterator[_Row]:
    """Look for the messages of each gap among those that left their queue.

    A source draws its numbers in rising order. So a message of a gap has a number between those of
    the neighbours of the same source.
    """
    candidates = left.collect() if left is not None and gaps else []
    for gap in gaps:
        count = gap["last_lookup_id"] - gap["first_lookup_id"] + 1
        between = _neighbours(gap, rows) if candidates else {}
        inside = [each for each in candidates if _fits(each, gap, between)]
        explained = sum(each["positions"] for each in inside)
        if explained != count:
            yield _finding("gap", gap, f"positions in no source: {count}, {explained} explained")
            continue
        ends = ", ".join(sorted({f"{each['id']} {_end(each)}" for each in inside}))
        yield _finding("gap", gap, ends, explained=True)


def _neighbours(gap: Any, rows: DataFrame) -> dict[str, tuple[int | None, int | None]]:
    """For each source, its last number before a gap and its first one behind it."""
    from pyspark.sql import functions as f

    here = rows.where(
        (f.col("manager_id") == gap["manager_id"])
        & (f.col("queue") == gap["queue"])
        & (f.col("queue_born") == gap["queue_born"])
    )
    number, first = number_of(f.col("sequence_id")), f.col("first_lookup_id")
    found = here.groupBy(f.substring_index("sequence_id", "\\", 1).alias("source_id")).agg(
        f.max(f.when(first < gap["first_lookup_id"], number)).alias("low"),
        f.min(f.when(first > gap["last_lookup_id"], number)).alias("high"),
    )
    return {row["source_id"]: (row["low"], row["high"]) for row in found.collect()}


def _fits(candidate: Any, gap: Any, between: dict[str, tuple[int | None, int | None]]) -> bool:
    source, number = split_id(candidate["id"])
    low, high = between.get(str(source), (None, None))
    return (
        candidate["manager_id"] == gap["manager_id"]
        and (low is None or low < number)
        and (high is None or number < high)
    )


def _end(candidate: Any) -> str:
    if candidate["queue"] not in DEAD_LETTER_QUEUES:
        return "was received by another consumer"
    reason = MessageClass(candidate["message_class"]).name.removeprefix("NACK_")
    return f"is a dead letter ({reason.lower().replace('_', ' ')})"


def _disorder(rows: DataFrame) -> Iterator[_Row]:
    """Within a transaction a later message has a higher number; its sender drew them in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    numbered = rows.where("transaction_id is not null").dropDuplicates(["sequence_id"])
    order = Window.partitionBy(*_QUEUE, "transaction_id").orderBy("first_lookup_id")
    found = (
        numbered.withColumn("number", number_of(f.col("sequence_id")))
        .withColumn("before", f.lag("number").over(order))
        .where("number <= before")
        .withColumnRenamed("sequence_id", "id")
    )
    for row in found.collect():
        yield _finding(
            "order", row, f"number {row['number']} stands behind {row['before']} of its transaction"
        )


def _torn(rows: DataFrame, waiting: DataFrame | None, left: DataFrame | None) -> Iterator[_Row]:
    """Transactions of which rows are missing, over all commits of all tables."""
    from pyspark.sql import functions as f

    counted = (
        rows.where("transaction_id is not null")
        .dropDuplicates(["sequence_id"])
        .groupBy(*_QUEUE, "transaction_id")
        .agg(
            f.count("*").alias("landed"),
            f.max("transaction_size").alias("size"),
            f.min("first_lookup_id").alias("first_lookup_id"),
            f.max("last_lookup_id").alias("last_lookup_id"),
        )
        .where("landed < size")
    )
    torn = counted.collect()
    wanted = [row["transaction_id"] for row in torn]
    elsewhere = _count_of(left, wanted) if left is not None and torn else {}
    still = _has(waiting, wanted) if waiting is not None and torn else set()
    for row in torn:
        missing = row["size"] - row["landed"]
        kept = elsewhere.get(row["transaction_id"], 0)
        said = f"{row['landed']} of {row['size']} messages landed"
        if row["transaction_id"] in still:
            yield _finding("transaction", row, f"{said}; others still wait", explained=True)
        else:
            yield _finding(
                "transaction", row, f"{said}, {kept} are kept elsewhere", explained=kept >= missing
            )


def _count_of(left: DataFrame, transaction_ids: list[str]) -> dict[str, int]:
    from pyspark.sql import functions as f

    counted = (
        left.where(f.col("transaction_id").isin(transaction_ids))
        .groupBy("transaction_id")
        .agg(f.countDistinct("id").alias("count"))
    )
    return {row["transaction_id"]: row["count"] for row in counted.collect()}


def _has(waiting: DataFrame, transaction_ids: list[str]) -> set[str]:
    from pyspark.sql import functions as f

    found = waiting.where(f.col("transaction_id").isin(transaction_ids))
    return {row["transaction_id"] for row in found.select("transaction_id").distinct().collect()}


def _payloads(rows: DataFrame) -> Iterator[_Row]:
    """Executors read each payload file and compare it with its row."""
    columns = [*_QUEUE, "origin", "sequence_id", "first_lookup_id", "last_lookup_id",
               "transaction_id", "path", "size", "digest", "digest_kind"]  # fmt: skip
    landed = rows.where("state = 'landed' and path is not null").select(*columns)
    fields = ", ".join(f"{name} {kind}" for name, kind in landed.dtypes)
    wrong = landed.repartition(_TASKS).mapInArrow(_wrong_files, f"{fields}, detail string")
    for row in wrong.withColumnRenamed("sequence_id", "id").collect():
        yield _finding("digest", row, row["detail"])


def _wrong_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        details = [_wrong(row) for row in rows]
        schema = batch.schema.append(pa.field("detail", pa.string()))
        wrong = [
            row | {"detail": detail}
            for row, detail in zip(rows, details, strict=True)
            if detail is not None
        ]
        yield pa.RecordBatch.from_pylist(wrong, schema=schema)


def _wrong(row: _Row) -> str | None:
    folder, _, name = row["path"].rpartition("/")
    try:
        size, digest = payloads_in(folder).read_back(name, row["digest_kind"])
    except (OSError, StoreError) as error:
        return f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
    if size != row["size"]:
        return f"{name} has {size} bytes, not {row['size']}"
    if digest != row["digest"]:
        return f"{name} has {row['digest_kind']} {digest[:16]}..., not {row['digest'][:16]}..."
    return None


def _extra_files(rows: DataFrame, sources: AuditSources) -> Iterator[_Row]:
    """Payload files that no row names: of a landing that was killed, or whose row is gone."""
    for directory in sources.directories:
        here = rows.where(rows["origin"] == str(directory)).where("payload is not null")
        named = {row["payload"] for row in here.select("payload").collect()}
        for name in sorted(payloads_of(directory).names()):
            if name not in named and not name.startswith("."):
                yield {
                    "kind": "payload", "explained": False, "origin": str(directory),
                    "detail": f"no row names the file {name}",
                }  # fmt: skip
