"""Spark's part of the demonstration, as a program of its own: a chain, the landing, its audit.

It starts Spark at once, while files are still being sent, and then waits for its order: one line of
JSON on standard input. The chain reads every large message as a file inside a job and sends a row
about it to a queue of the source manager; it takes nothing. The landing then empties the queue. The
audit proves that each message landed once, whole and in order.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dray.errors import DrayError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

RESULT = "body string, label string, correlation_id string"
HASHED_AT_ONCE = 1 << 20


class JobOrder(msgspec.Struct, frozen=True):
    """The places to read from, to land in, and for the rows of the chain."""

    url: str
    queue: str
    out: str
    results_url: str
    results_queue: str


class AuditTold(msgspec.Struct, frozen=True):
    """The result of the audit: how many rows it checked, and its findings as sentences."""

    rows: int = 0
    explained: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


class JobTimes(msgspec.Struct, frozen=True):
    """Seconds of each part, and what the audit found."""

    chain_s: float
    land_s: float
    audit_s: float
    audit: AuditTold


def main(answer: Path) -> int:
    """Start Spark, wait for the order, do it, and write the times to the file `answer`."""
    from dray.spark import land, spark_session

    try:
        with spark_session(name="dray demo") as spark:
            spark.range(1).count()
            said = sys.stdin.readline()
            if not said:
                return 0
            order = msgspec.json.decode(said, type=JobOrder)
            ordered = time.monotonic()
            run_chain(spark, order)
            chained = time.monotonic()
            land(order.url, order.queue, order.out, session=spark)
            landed = time.monotonic()
            told = run_audit(spark, order)
            audited = time.monotonic()
            times = JobTimes(chained - ordered, landed - chained, audited - landed, told)
            answer.write_bytes(msgspec.json.encode(times))
    except DrayError as error:
        sys.stderr.write(f"dray: {error.code}: {error}\n")
        return error.exit_status
    return 0


def run_chain(spark: SparkSession, order: JobOrder) -> None:
    """Send a row about each whole large message, all in one transaction."""
    reader = spark.read.format("dray").option("url", order.url).option("queue", order.queue)
    parcels = reader.option("content", "large").load().filter("size(missing) = 0")
    writer = parcels.mapInPandas(results_of, RESULT).write.format("dray").mode("append")
    writer = writer.option("url", order.results_url).option("queue", order.results_queue)
    writer.option("query_id", "demonstration").option("batch_id", 0).save()


def run_audit(spark: SparkSession, order: JobOrder) -> AuditTold:
    """Audit what landed, with what is still in the queue and among the dead letters."""
    from dray.spark import audit

    queues = [(order.url, order.queue), (order.url, "deadletter:")]
    report = audit([order.out, *queues], session=spark)
    told: dict[bool, list[str]] = {True: [], False: []}
    for finding in report.findings.to_pylist():
        about = finding["id"] or finding["queue"] or finding["origin"]
        told[finding["explained"]].append(f"{finding['kind']} in {about}: {finding['detail']}")
    return AuditTold(report.messages, tuple(told[True]), tuple(told[False]))


def results_of(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Size and SHA-256 of each payload, read on an executor."""
    import pandas as pd

    from dray.spark import open_payload

    for frame in frames:
        results = []
        for _, row in frame.iterrows():
            digest, size = hashlib.sha256(), 0
            with open_payload(row) as file:
                while piece := file.read(HASHED_AT_ONCE):
                    digest.update(piece)
                    size += len(piece)
            body = json.dumps({"size": size, "sha256": digest.hexdigest()})
            results.append((body, row["label"], row["sequence_id"]))
        yield pd.DataFrame(results, columns=["body", "label", "correlation_id"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
