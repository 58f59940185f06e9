"""A query into a queue that kills an executor and a worker of its cluster while their tasks write.

sink_on_cluster.py KIND MASTER URL SOURCE FLAGS, where KIND is one of

    sink        the query reads the files in the directory SOURCE and writes them as a stream
    settling    the query reads the queue SOURCE, and settles what it has written as a table

In batch 1 the executor of a task dies when the task has staged its rows and the driver has not
heard of it; in batch 3 a worker dies, with its executor, when a task has sent part of its rows.
FLAGS is a directory that says which of the two has happened.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark import TaskContext, cloudpickle

from dray.spark import settling, spark_session
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.sink.writers import BatchSink, StreamSink
from dray.spark.source.data_source import DraySource
from tests.spark.land_on_cluster import CONFIG

STAGED, SENDING = 1, 3
"""The batches in which the executor and the worker die."""
TASKS = 4


class Killing:
    """A sink whose tasks kill."""

    flags = ""

    def write(self, iterator):
        batch = getattr(self, "_batch", None)
        if batch is None:
            batch = int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))
        told = super().write(self.killing(iterator, batch))
        if batch == STAGED and self.is_first("executor"):
            os.kill(executor(), signal.SIGKILL)
        return told

    def killing(self, iterator, batch):
        for each in iterator:
            yield each
            if batch == SENDING and each.num_rows and self.is_first("worker"):
                os.killpg(os.getpgid(executor()), signal.SIGKILL)

    def is_first(self, name):
        try:
            (Path(self.flags) / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def executor():
    """The Java process of the task: the parent of the daemon that has forked this process."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rpartition(")")[2].split()[1])


class KillingStream(Killing, StreamSink):
    pass


class KillingTable(Killing, BatchSink):
    pass


class KillingSource(DraySource):
    @classmethod
    def name(cls):
        return "killing"

    def writer(self, schema, overwrite):
        return KillingTable(read_sink_options(self.options, schema, overwrite=overwrite,
                                              stream=False))  # fmt: skip

    def streamWriter(self, schema, overwrite):  # noqa: N802 - the name is Spark's
        return KillingStream(read_sink_options(self.options, schema, overwrite=overwrite,
                                               stream=True))  # fmt: skip


def sink(spark, url, source):
    rows = spark.readStream.option("maxFilesPerTrigger", "1").text(source)
    rows = rows.withColumnRenamed("value", "body").repartition(TASKS)
    return rows.writeStream.format("killing").option("url", url).option("queue", "rows")


def settle(spark, url, source):
    def write(rows, batch_id):
        table = rows.select("body").repartition(TASKS).write.format("killing").mode("append")
        table = table.option("url", url).option("queue", "rows").option("query_id", "rows")
        table.option("batch_id", batch_id).save()

    reader = spark.readStream.format("dray").option("url", url).option("queue", source)
    return (
        reader.option("maxOffsetsPerTrigger", "40").load().writeStream.foreachBatch(settling(write))
    )


def main(kind, master, url, *rest):
    source, flags = rest
    Killing.flags = flags
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with spark_session(master=master, config=CONFIG) as spark:
        spark.dataSource.register(KillingSource)
        writer = (sink if kind == "sink" else settle)(spark, url, source)
        writer = writer.option("checkpointLocation", f"{flags}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
