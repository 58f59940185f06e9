"""A query that sends what it reads on to another queue, settles it, and kills its own driver.

settle_and_die.py URL CHECKPOINT POINT, where POINT is one of

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

    def note_written(self):
        self.die_at("written")
        super().note_written()
        self.die_at("noted")

    def settle(self):
        super().settle()
        self.die_at("settled")

    def die_at(self, point):
        if self.point == point and self._name.number == BATCH:
            os.kill(os.getpid(), signal.SIGKILL)


def main(url, checkpoint, point):
    DyingBatch.point = point
    settle_batches._BatchOfSource = DyingBatch
    with spark_session() as spark:
        start(spark, url, checkpoint).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
