"""A local Spark session with its settings, for callers that have none.

Set before the first session of a process, with the reason:

    JAVA_HOME, PATH       the Java that `dray.spark.java` found
    PYSPARK_PYTHON        workers otherwise take `python3` from PATH, which may be another Python
    SPARK_LOCAL_IP        nothing listens beyond this machine
    master local[2,3]     two tasks at a time, each tried three times (`local[2]` never tries again)
    stopTimeout           a stop of a query interrupts it again (`query_end.py`), and does not wait
                          without a limit
    noDataMicroBatches    off, or a run over what is available would not end by itself
    log4j2                our own file: next to nothing, since what ends a query is raised
    daemon.module         workers are forked from a process that has imported what they need
    socketTimeout         two minutes for Spark and a worker to make themselves known, not 15
                          seconds: on a busy machine a query would fail by chance
    SPARK_HOME            a directory of links (`spark_home.py`), unless it is set already: Python
                          processes load compiled modules from there
    enable_null_check...  off: Spark looks for nulls itself before it reads a value, and Arrow's own
                          look costs a twelfth of the time that reading small messages takes
    java.io.tmpdir        a directory (`scratch.py`) that the next session removes if this one is
                          killed
    TieredStopAtLevel=1   payload does not pass through the JVM, so that compiling its code well
                          costs more than it brings: sessions start in half the time
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from dray.client.calls.public_calls import checked
from dray.errors import JavaMissing
from dray.spark.failure import errors_told
from dray.spark.java import Java, find_java
from dray.spark.query_end import STOP_S
from dray.spark.scratch import own_directory, session_directory
from dray.spark.spark_home import spark_home_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2,3]"
DRIVER_MEMORY = "1g"
WORKER_STARTS_WITHIN_S = 120
WORKER_DAEMON = "dray.spark_workers"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` tells the program by this variable where the Java listens that it has started."""
_QUERIES = {
    "spark.python.daemon.module": WORKER_DAEMON,
    "spark.python.authenticate.socketTimeout": f"{WORKER_STARTS_WITHIN_S}s",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stopTimeout": f"{STOP_S}s",
}
"""Settings of any session of ours, wherever its tasks run."""


@checked
@contextmanager
def spark_session(
    *,
    master: str | None = None,
    name: str = "dray",
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give the session that this process has, or else one of our own, stopped at the end.

    A program that `spark-submit` started gets the master and the settings that were given there;
    any other program gets a local session, unless `master` names a cluster. In a session of our
    own, Spark raises errors of Dray as they are: one sentence and no trace.

    Raises `JavaMissing` where Spark cannot run.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # A session is active only in the threads that used it; the context tells of all.
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - Spark has no other way
        yield SparkSession.builder.getOrCreate()
        return
    if _SUBMITTED in os.environ:
        session = _start_submitted(master, name, config or {})
        try:
            with errors_told():
                yield session
        finally:
            session.stop()
        return
    master = master or MASTER
    found = find_java()
    prepare_environment(found)
    with (
        session_directory() as scratch,
        as_file(files("dray.spark") / "log4j2.properties") as log_settings,
    ):
        settings = {**_settings(scratch, log_settings), **(config or {})}
        session = _start(found, master, name, settings)
        try:
            with errors_told():
                yield session
        finally:
            session.stop()


def prepare_environment(java: Java) -> None:
    """Set what the processes that Spark starts will find in their environment."""
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(WORKER_STARTS_WITHIN_S))


def _settings(scratch: Path, log_settings: Path) -> dict[str, str]:
    java_options = (
        f"-Dlog4j2.configurationFile=file:{log_settings} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        " -Darrow.enable_null_check_for_get=false"
        f' "-Djava.io.tmpdir={own_directory() / "java"}"'
    )
    return {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options,
        **_QUERIES,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def submitted_settings(
    has: Callable[[str], bool], master: str | None, name: str, config: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a session whose Java `spark-submit` has started: what it `has` stays.

    Only the caller's own `master` and `config` come before that.
    """
    ours = {"spark.app.name": name, **_QUERIES}
    given = {} if master is None else {"spark.master": master}
    return {key: value for key, value in ours.items() if not has(key)} | given | dict(config)


def _start_submitted(master: str | None, name: str, config: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    settings = submitted_settings(SparkConf().contains, master, name, config)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start(java: Java, master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with spark_home_set(master):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise JavaMissing(
            f"Spark cannot run with {java}:"
            " it ended before Spark had started; set JAVA_HOME to another Java, 17 or later"
        ) from error
