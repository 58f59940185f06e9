"""The Iceberg recipe of the how-to, in a query that may kill its own driver; see `main`.

iceberg_and_die.py URL CHECKPOINT [POINT], where POINT is one of

    appending   the files of batch 1 are written, their commit is not made
    appended    the commit of batch 1 is made, `write` has not returned
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from dray.spark import settling, spark_session

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "settle-what-a-query-reads.md"
BATCH = re.compile(r"dray\.batch.{1,9}[0-9a-f-]{36} 1\b")


def recipe():
    """The function of the page."""
    section = PAGE.read_text("utf-8").partition("## Recipe: Iceberg")[2]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    exec(code[1], names)  # noqa: S102 - the code of our own page
    return names["write_iceberg"]


def die_at(point):
    commit = SqlCatalog.commit_table

    def dying(catalog, table, requirements, updates):
        told = BATCH.search(repr(updates))
        if told and point == "appending":
            os.kill(os.getpid(), signal.SIGKILL)
        result = commit(catalog, table, requirements, updates)
        if told and point == "appended":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    SqlCatalog.commit_table = dying


def start(spark, url, checkpoint, write=None):
    """Begin the query with the recipe; a test runs it again with the same checkpoint."""
    reader = spark.readStream.format("dray").option("url", url).option("queue", "orders")
    rows = reader.option("maxOffsetsPerTrigger", "10").load().select("lookup_id", "body")
    writer = rows.writeStream.foreachBatch(settling(write or recipe()))
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def main(url, checkpoint, point=""):
    die_at(point)
    with spark_session() as spark:
        start(spark, url, checkpoint).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
