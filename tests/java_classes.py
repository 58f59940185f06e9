"""Every Java of Spark loads its classes from one archive: a plugin of the tests.

Tests that kill a driver start a Java of their own. It spends half of its start on reading, checking
and linking the same twelve thousand classes. Java can keep them in a file (class data sharing). The
first run of a checkout makes that file, next to what else pytest keeps between runs; a Java that
finds no file, or one that does not fit, starts as ever.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SETTINGS = "SPARK_SUBMIT_OPTS"
"""Environment of `spark-submit`: options for the Java of a driver."""
MAKING = """
import tempfile
from dray.spark import spark_session

with tempfile.TemporaryDirectory() as folder, spark_session() as spark:
    rows = spark.range(9, numPartitions=2).selectExpr("id % 2 AS key", "id")
    rows.groupBy("key").count().write.parquet(f"{folder}/rows")

    def write(batch, number):
        batch.mapInArrow(lambda tables: tables, batch.schema).write.parquet(f"{folder}/{number}")

    stream = spark.readStream.schema("key long, count long").parquet(f"{folder}/rows")
    stream = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    stream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    assert len(spark.read.parquet(f"{folder}/0").toPandas()) == 2
"""


class JavaClasses:
    """The plugin: names the archive to every driver; makes it before the first test of Spark."""

    def __init__(self, config: pytest.Config) -> None:
        spark = find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        jars = Path(spark.origin).parent / "jars"
        # Java refuses an archive of other files, also of the same ones unpacked later.
        age = max(each.stat().st_mtime_ns for each in jars.iterdir())
        self.archive = config.cache.mkdir("spark") / f"classes-{age}.jsa"
        os.environ[SETTINGS] = f"-XX:SharedArchiveFile={self.archive} -Xlog:disable"

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Make the archive if a test needs Java, nobody has made it and nobody is about to."""
        if item.get_closest_marker("spark") is None or self.archive.exists():
            return
        with self.archive.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            make(self.archive)


def make(archive: Path) -> None:
    """Run once what most tests need, and have Java keep the classes that it has loaded."""
    new = archive.with_suffix(".new")
    settings = {SETTINGS: f"-XX:ArchiveClassesAtExit={new} -Xlog:disable"}
    program = [sys.executable, "-c", MAKING]
    # The pipe is at its end when Java, which outlives Python, has written the archive.
    done = subprocess.run(
        program, env=os.environ | settings, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    if new.exists():
        new.rename(archive)
