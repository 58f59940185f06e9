"""The end of a streaming query: a stop returns, and prints no trace of Java."""

from __future__ import annotations

import contextlib
import threading

import pytest
from py4j.protocol import Py4JJavaError

from dray.errors import DrayError
from dray.spark import query_end
from dray.spark.landing.query import LandingQuery, Until
from dray.spark.query_end import told_briefly

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG_MS = 600_000
CALLING = "py4j.protocol.Py4JJavaError: An error occurred while calling"


class Uncaught:
    """Hears, as Java does, of what ended a thread of the Java program."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, _thread, error):  # noqa: N802 - Java's name
        self.errors.append(error.toString())

    class Java:  # noqa: D106 - the name that py4j looks for
        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


@pytest.fixture
def query(spark, tmp_path):
    """Makes a query over endless rows out of a function for its batches."""

    def make(land_batch, until):
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        return LandingQuery(rows, land_batch, tmp_path / "checkpoint", until)

    return make


@pytest.fixture
def uncaught(spark):
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)
    heard = Uncaught()
    thread = spark._jvm.java.lang.Thread
    before = thread.getDefaultUncaughtExceptionHandler()
    thread.setDefaultUncaughtExceptionHandler(heard)
    yield heard
    thread.setDefaultUncaughtExceptionHandler(before)


def test_a_stop_in_the_middle_of_a_batch_kills_no_thread_of_java(spark, query, uncaught):
    stop = threading.Event()

    def wait_in_java(_rows):
        stop.set()
        spark._jvm.java.lang.Thread.sleep(LONG_MS)

    query(wait_in_java, Until(follow=True, stop=stop)).run()

    assert uncaught.errors == []


def test_a_query_that_went_on_after_a_stop_is_stopped_again(spark, query, caplog):
    stop = threading.Event()

    def miss_the_first(_rows):
        stop.set()
        with contextlib.suppress(Py4JJavaError):
            spark._jvm.java.lang.Thread.sleep(LONG_MS)
        spark._jvm.java.lang.Thread.sleep(LONG_MS)

    name = "spark.sql.streaming.stopTimeout"
    before = spark.conf.get(name)
    spark.conf.set(name, "500ms")
    try:
        query(miss_the_first, Until(follow=True, stop=stop)).run()
    finally:
        spark.conf.set(name, before)

    assert "stopped once more" in caplog.text


class Endless:
    """A query that no stop ends."""

    def __init__(self) -> None:
        self.stops = 0

    def stop(self):
        self.stops += 1
        raise RuntimeError("Stream Execution thread failed to stop within 20000 milliseconds")


def test_a_query_that_no_stop_ends_is_told_of():
    endless = Endless()
    with pytest.raises(DrayError, match="end the program, and start it again"):
        query_end.stop(endless)
    assert endless.stops == query_end.STOPS_MAX


def test_another_failure_of_a_batch_keeps_its_text_and_not_the_words_that_spark_looks_for():
    with pytest.raises(DrayError, match=r"o7\.count") as told, told_briefly():
        raise RuntimeError(f"{CALLING} o7.count")
    assert CALLING not in str(told.value)


def test_an_error_without_a_call_into_java_stays_as_it_is():
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as told, told_briefly():
        raise error
    assert told.value is error
