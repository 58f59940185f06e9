"""Spark's Pythons in the tests are forked with their imports, and behave as others do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


@pytest.fixture(scope="module")
def python(preloaded):
    """The program that Spark starts in the place of Python."""
    return preloaded.python


def test_another_program_of_spark_is_python_itself(python):
    said = "import os, sys; print(sys.executable, sys.argv[1:], os.getpid())"
    with subprocess.Popen(
        [python, "-c", said, "one", "two words"], stdout=subprocess.PIPE, text=True
    ) as process:
        out, _ = process.communicate(timeout=100)
    assert out == f"{sys.executable} ['one', 'two words'] {process.pid}\n"


def test_a_planner_has_the_streams_and_gives_the_status_of_its_own(python):
    # Nobody has told it where Java listens.
    done = subprocess.run(
        [python, "-m", RUNNER], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1
    raised_in = [line.split('"')[1] for line in done.stderr.splitlines() if "  File" in line]
    assert any(each.endswith("tests/spark/preloaded.py") for each in raised_in)
    assert any(each.endswith("streaming/python_streaming_source_runner.py") for each in raised_in)


@pytest.fixture
def planner(python):
    """A planner that is connected to this test instead of Java: its program, its connection."""
    with socket.create_server(("127.0.0.1", 0)) as java:
        java.settimeout(100)
        told = {
            "PYTHON_WORKER_FACTORY_PORT": str(java.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        with subprocess.Popen(
            [python, "-m", RUNNER], env=os.environ | told, stderr=subprocess.DEVNULL
        ) as program:
            connection, _ = java.accept()
            with connection:
                connection.settimeout(100)
                yield program, connection


def until_closed(connection):
    with connection.makefile("rb") as said:
        said.read()


def test_a_planner_ends_with_the_program_that_java_ends(planner):
    program, connection = planner
    program.terminate()
    until_closed(connection)
    assert program.wait(100) == -signal.SIGTERM


def test_a_planner_ends_when_java_is_gone(planner):
    program, connection = planner
    connection.shutdown(socket.SHUT_WR)
    until_closed(connection)
    assert program.wait(100)


class Noting(DataSource):
    """A stream of one row, which its planner makes: whether Dray was there before it came."""

    @classmethod
    def name(cls):
        return "noting"

    def schema(self):
        return "loaded boolean"

    def simpleStreamReader(self, schema):  # noqa: N802 - Spark's name
        del schema
        return NotingReader("dray.spark.source.data_source" in sys.modules)


class NotingReader(SimpleDataSourceStreamReader):
    def __init__(self, loaded):
        self.loaded = loaded

    def initialOffset(self):  # noqa: N802 - Spark's name
        return {"at": 0}

    def read(self, start):
        return iter([(self.loaded,)] if not start["at"] else []), {"at": 1}


@pytest.mark.spark
@pytest.mark.slow
def test_planners_of_the_session_are_forked_with_their_imports(spark, tmp_path):
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        spark.dataSource.register(Noting)
        seen = []
        query = (
            spark.readStream.format("noting").load().writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda rows, _: seen.extend(rows.collect())).start()
        )  # fmt: skip
        assert query.awaitTermination(200)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert [row["loaded"] for row in seen] == [True]
