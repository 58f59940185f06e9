"""A query into a queue that kills its own driver with SIGKILL at a chosen point of a commit.

sink_and_die.py URL TEXTS CHECKPOINT POINT, where POINT is one of

    unread       Spark has planned the batch, no task has read a row
    staged       all tasks have staged, nothing is committed
    sent         the request to commit is on its way, nobody has heard the answer
    committed    the batch is committed, Spark's log does not have it
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark import TaskContext, cloudpickle

from dray.client.connections.threads import run
from dray.model.ids import split_id
from dray.spark import spark_session
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.sink.writers import StreamSink, _words, add_digests
from dray.spark.source.data_source import DraySource
from dray.wire.batch_frames import CommitBatch

BATCH = 1
"""The batch in whose commit the driver dies."""


class DyingSink(StreamSink):
    def __init__(self, options, driver, point):
        super().__init__(options)
        self.driver, self.point = driver, point

    def write(self, iterator):
        batch_id = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        if self.point == "unread" and batch_id == str(BATCH):
            self.die()
        return super().write(iterator)

    def commit(self, messages, batchId):  # noqa: N803 - the signature is Spark's
        if batchId != BATCH:
            super().commit(messages, batchId)
            return
        if self.point == "sent":
            self.send_and_die(_words(messages), batchId)
        if self.point == "committed":
            super().commit(messages, batchId)
        self.die()

    def send_and_die(self, words, batch_id):
        import dray

        manager = dray.connect(self._options.url)
        begun = manager.transaction()
        connection = run(begun.awaited.link.connection())
        digest = add_digests(each.digest for each in words)
        staged = [each.transaction_id for each in words if each.transaction_id]
        number = split_id(begun.id)[1]
        run(connection.start(CommitBatch(words[0].query, batch_id, digest, number, staged)))
        self.die()

    def die(self):
        os.kill(self.driver, signal.SIGKILL)
        # This worker is a child of the driver's Java, which goes when it misses its parent.
        os.kill(os.getpid(), signal.SIGKILL)


class DyingSource(DraySource):
    driver = os.getpid()
    point = ""

    @classmethod
    def name(cls):
        return "dying"

    def streamWriter(self, schema, overwrite):  # noqa: N802 - the name is Spark's
        options = read_sink_options(self.options, schema, overwrite=overwrite, stream=True)
        return DyingSink(options, self.driver, self.point)


def main(url, texts, checkpoint, point):
    DyingSource.point = point
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with spark_session() as spark:
        spark.dataSource.register(DyingSource)
        rows = spark.readStream.option("maxFilesPerTrigger", "1").text(texts)
        rows = rows.withColumnRenamed("value", "body").repartition(2)
        writer = rows.writeStream.format("dying").option("url", url).option("queue", "rows")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
