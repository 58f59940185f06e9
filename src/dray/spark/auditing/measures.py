"""The messages and bytes of each hour, and their delays, by queue and by stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dray.spark.auditing.sources import landed_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dray.spark.auditing.sources import AuditSources

_SHARES = (0.5, 0.95, 0.99)


def hours_of(spark: SparkSession, sources: AuditSources) -> pa.Table:
    """One row for each queue and hour of landing: messages, bytes, percentiles of latency."""
    from pyspark.sql import functions as f

    rows = landed_rows(spark, sources).withColumn("hour", f.date_trunc("hour", "landed_time"))
    return _measured(rows, ["manager_id", "queue", "hour"])


def streams_of(spark: SparkSession, sources: AuditSources) -> pa.Table:
    """One row for each source and queue that it sent to, the slowest first."""
    rows = landed_rows(spark, sources)
    return _measured(rows, ["source", "manager_id", "queue"]).sort_by(
        [("landed_p99_s", "descending")]
    )


def _measured(rows: DataFrame, keys: list[str]) -> pa.Table:
    from pyspark.sql import functions as f

    measured = rows.groupBy(*keys).agg(
        f.count("*").alias("messages"),
        f.coalesce(f.sum("size"), f.lit(0)).alias("bytes"),
        *_percentiles("arrived", "arrived_time"),
        *_percentiles("landed", "landed_time"),
    )
    return measured.orderBy(*keys).toArrow()


def _percentiles(name: str, until: str) -> list[Column]:
    """Percentiles of the seconds from the send."""
    from pyspark.sql import functions as f

    seconds = f.col(until).cast("double") - f.col("sent_time").cast("double")
    return [
        f.percentile(seconds, f.lit(share)).alias(f"{name}_p{share * 100:.0f}_s")
        for share in _SHARES
    ]
