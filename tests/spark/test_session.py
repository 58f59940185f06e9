"""The session that Dray makes for those who have none."""

from __future__ import annotations

import os

import pytest

import dray.spark
from dray.spark.session import WORKER_DAEMON, submitted_settings
from dray.spark.source.data_source import DraySource


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_on_a_busy_machine_is_waited_for_at_both_ends(spark):
    """Spark's own 15 seconds are too short where processes outnumber processors."""
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.python.authenticate.socketTimeout") == "120s"
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == "120"


@pytest.mark.spark
@pytest.mark.slow
def test_a_null_of_a_worker_stays_null_though_arrow_does_not_look_for_it(spark):
    def give(batches):
        import pyarrow as pa

        for _ in batches:
            pass
        values = {"number": [7, None], "text": ["a", None], "body": [b"b", None]}
        yield pa.RecordBatch.from_pydict({**values, "list": [[1, None], None]})

    schema = "number long, text string, body binary, list array<long>"
    rows = spark.range(1, numPartitions=1).mapInArrow(give, schema).collect()

    assert list(map(tuple, rows)) == [(7, "a", b"b", [1, None]), (None, None, None, None)]
    system = spark.sparkContext._jvm.java.lang.System
    assert system.getProperty("arrow.enable_null_check_for_get") == "false"


@pytest.mark.spark
def test_a_session_learns_a_format_that_it_does_not_find_by_itself(spark, monkeypatch):
    """Under another name, since Spark finds the installed one."""
    monkeypatch.setattr(DraySource, "name", classmethod(lambda _: "shipped"))
    session = spark.newSession()
    known = session._jsparkSession.sessionState().dataSourceManager()
    assert not known.dataSourceExists("shipped")
    dray.spark.register(session)
    assert known.dataSourceExists("shipped")


class Told:
    """A Java Runnable of ours."""

    class Java:
        """What py4j reads of it."""

        implements = ("java.lang.Runnable",)

    def __init__(self):
        self.count = 0

    def run(self):
        self.count += 1


def test_java_calls_when_it_likes_and_no_later_test_is_blamed(spark):
    """Without the mark of Spark's tests, so that what it leaves open is looked for as anywhere."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    told = Told()

    thread = gateway.jvm.java.lang.Thread(told)
    thread.start()
    thread.join()

    assert told.count == 1


def test_a_program_that_spark_submit_starts_keeps_what_was_told_there():
    told = {"spark.master": "spark://master:7077", "spark.sql.streaming.stopTimeout": "1s"}

    settings = submitted_settings(told.__contains__, None, "dray", {"spark.executor.cores": "2"})

    assert settings["spark.python.daemon.module"] == WORKER_DAEMON
    assert settings["spark.executor.cores"] == "2"
    assert not settings.keys() & told.keys()
    local = {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"}
    assert not settings.keys() & local
    mine = submitted_settings(told.__contains__, "local[1]", "dray", {})
    assert mine["spark.master"] == "local[1]"
