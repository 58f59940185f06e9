"""A driver that lands, settles and sends at the same time, to be killed at any moment.

pipeline.py URL DIRECTORY: it lands the queue `parcels` into DIRECTORY/out, writes the messages of
`orders` to DIRECTORY/settled and settles them, and sends the lines of DIRECTORY/texts to `rows`.
It says `ready` when Spark has started, and ends when all that was there is done.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dray.spark import land, settling, spark_session

FEW = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""There are few rows, and the start of a query is nearly all of the time."""


def run(spark, url, directory):
    queries = [settle(spark, url, directory), send(spark, url, directory)]
    land(url, "parcels", directory / "out", session=spark, bytes_per_batch="100KiB")
    for query in queries:
        query.awaitTermination()


def settle(spark, url, directory):
    """Each batch becomes a file of its own, whole or not at all."""

    def write(rows, batch_id):
        bodies = [bytes(row.body).decode() for row in rows.select("body").collect()]
        fresh = directory / f"{batch_id}.new"
        fresh.write_text(json.dumps(bodies))
        fresh.replace(directory / "settled" / f"{batch_id}.json")

    reader = spark.readStream.format("dray").option("url", url).option("queue", "orders")
    rows = reader.option("maxOffsetsPerTrigger", "8").load()
    writer = rows.writeStream.foreachBatch(settling(write))
    writer = writer.option("checkpointLocation", str(directory / "settling"))
    return writer.trigger(availableNow=True).start()


def send(spark, url, directory):
    rows = spark.readStream.option("maxFilesPerTrigger", "2").text(str(directory / "texts"))
    writer = rows.withColumnRenamed("value", "body").repartition(2).writeStream.format("dray")
    writer = writer.option("url", url).option("queue", "rows")
    writer = writer.option("checkpointLocation", str(directory / "sending"))
    return writer.trigger(availableNow=True).start()


def main(url, directory):
    with spark_session(config=FEW) as spark:
        print("ready", flush=True)
        run(spark, url, Path(directory))


if __name__ == "__main__":
    main(*sys.argv[1:])
