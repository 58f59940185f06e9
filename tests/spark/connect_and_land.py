"""Reads through Spark Connect and tries to land; run as a program: connect_and_land.py URL OUT."""

from __future__ import annotations

import os
import sys

from dray.errors import InvalidConfiguration
from dray.spark import find_java, land
from dray.spark.session import prepare_environment


def main(url, out):
    prepare_environment(find_java())
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"url": url, "queue": "orders"}
    sys.stdout.write(f"{spark.read.format('dray').options(**options).load().count()}\n")
    rows = spark.readStream.format("dray").options(**options).load()
    writer = rows.writeStream.format("parquet").option("path", f"{out}/rows")
    query = writer.option("checkpointLocation", f"{out}/at").trigger(availableNow=True).start()
    query.awaitTermination()
    sys.stdout.write(f"{spark.read.parquet(f'{out}/rows').count()}\n")
    try:
        land(url, "orders", out, session=spark)
    except InvalidConfiguration as error:
        sys.stdout.write(f"{error}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
