"""A query that sends what it reads on to another queue, settles it, and kills its own driver.

settle_and_die.py URL CHECKPOINT POINT, where POINT is one of

    unread     Spark has planned the batch, `write` has read nothing
    written    `write` has returned, nothing is noted
    noted      the batch is noted as written, nothing is settled
    settled    the batch is settled, Spark's log does not have it
"""

from __future__ import annotations

import os
import signal
import sys

from dray.spark import settle_batches, spark_session

BATCH = 1


def start(spark, url, checkpoint):
    """Begin the query; a test runs it again with the same checkpoint."""

    def write(rows, batch_id):
        die_at("unread", batch_id)
        kept = rows.selectExpr("upper(cast(body AS string)) AS body")
        writer = kept.write.format("dray").mode("append").option("url", url)
        writer = writer.option("queue", "results").option("query_id", "results")
        writer.option("batch_id", batch_id).save()

    reader = spark.readStream.format("dray").option("url", url).option("queue", "orders")
    rows = reader.option("maxOffsetsPerTrigger", "10").load()
    writer = rows.writeStream.foreachBatch(settle_batches.settling(write))
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


class DyingBatch(settle_batches._BatchOfSource):
    point = ""
    """Where the driver dies; a test that runs the query in its own process leaves it empty."""

    def note_written(self):
        die_at("written", self._name.number)
        super().note_written()
        die_at("noted", self._name.number)

    def settle(self):
        super().settle()
        die_at("settled", self._name.number)


def die_at(point, batch_id):
    if DyingBatch.point == point and batch_id == BATCH:
        os.kill(os.getpid(), signal.SIGKILL)


def main(url, checkpoint, point):
    DyingBatch.point = point
    settle_batches._BatchOfSource = DyingBatch
    with spark_session() as spark:
        start(spark, url, checkpoint).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
