"""Landing, settling and sink on a cluster; in each a task waits until Spark has run its copy, too.

speculate_on_cluster.py MASTER URL OUT TEXTS FLAGS: lands the queue "parcels" into OUT, sends what a
query reads from "orders" on to "settled", and the lines of the files in TEXTS to "sent". The first
task of each that has done its work, or is about to pull, goes on when a speculative copy of it has
done the same: both have staged their rows, or both write the same payload. FLAGS is a directory
that says in which of the three it happened.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark import TaskContext, cloudpickle

from dray.spark import land, settling, spark_session
from dray.spark.landing import puller
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.sink.writers import BatchSink, StreamSink
from dray.spark.source.data_source import DraySource
from tests.spark.land_on_cluster import CONFIG

WITHIN_S = 200
TASKS = 4


class Copied:
    """A task that is run twice at the same time."""

    flags = ""

    def meet(self, kind, work):
        """In a first attempt, wait for the copy; in a copy, say that it is there."""
        mine, met = Path(self.flags) / kind, Path(self.flags) / f"{kind}-copied"
        if TaskContext.get().attemptNumber():
            if mine.exists() and mine.read_text() == work:
                met.touch()
            return
        try:
            with mine.open("x") as file:
                file.write(work)
        except FileExistsError:
            return
        until = time.monotonic() + WITHIN_S
        while not met.exists() and time.monotonic() < until:
            time.sleep(0.05)


class CopiedPuller(Copied, puller.ManagerPuller):
    def pull(self, row, target):
        if not TaskContext.get().attemptNumber():
            self.meet("landing", row["sequence_id"])
        told = super().pull(row, target)
        if TaskContext.get().attemptNumber():
            self.meet("landing", row["sequence_id"])
        return told


class CopiedTable(Copied, BatchSink):
    def write(self, iterator):
        told = super().write(iterator)
        self.meet("settling", str(TaskContext.get().partitionId()))
        return told


class CopiedStream(Copied, StreamSink):
    def write(self, iterator):
        told = super().write(iterator)
        self.meet("sink", str(TaskContext.get().partitionId()))
        return told


class CopiedSource(DraySource):
    @classmethod
    def name(cls):
        return "copied"

    def writer(self, schema, overwrite):
        return CopiedTable(read_sink_options(self.options, schema, overwrite=overwrite,
                                             stream=False))  # fmt: skip

    def streamWriter(self, schema, overwrite):  # noqa: N802 - the name is Spark's
        return CopiedStream(read_sink_options(self.options, schema, overwrite=overwrite,
                                              stream=True))  # fmt: skip


def settle(spark, url):
    def write(rows, batch_id):
        table = rows.select("body").repartition(TASKS).write.format("copied").mode("append")
        table = table.option("url", url).option("queue", "settled").option("query_id", "settled")
        table.option("batch_id", batch_id).save()

    rows = spark.readStream.format("dray").option("url", url).option("queue", "orders").load()
    return rows.writeStream.foreachBatch(settling(write))


def send(spark, url, texts):
    rows = spark.readStream.text(texts).withColumnRenamed("value", "body").repartition(TASKS)
    return rows.writeStream.format("copied").option("url", url).option("queue", "sent")


def main(master, url, *rest):
    out, texts, flags = rest
    Copied.flags = flags
    puller.ManagerPuller = CopiedPuller
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    config = CONFIG | {"spark.speculation.quantile": "0.5"}
    with spark_session(master=master, config=config) as spark:
        spark.dataSource.register(CopiedSource)
        land(url, "parcels", out, session=spark)
        for kind, writer in (("settling", settle(spark, url)), ("sink", send(spark, url, texts))):
            query = writer.option("checkpointLocation", f"{out}-{kind}").trigger(availableNow=True)
            query.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
