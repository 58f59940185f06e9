"""One Spark session for the whole run, since it takes ten seconds, and managers to read from."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dray
from tests.spark.class_archive import archive_settings
from tests.spark.preloaded import Preloaded

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def class_archive():
    """Variables with which each Java of these tests starts from an archive of its classes."""
    return archive_settings()


@pytest.fixture(scope="module", autouse=True)
def drivers_start_from_the_archive(request):
    """Those that tests start; a module without Spark needs no archive."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("spark"):
            set_variables(patch, request.getfixturevalue("class_archive"))
        yield


def set_variables(patch, variables):
    for name, value in variables.items():
        patch.setenv(name, value)


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory):
    """The process that forks Spark's Pythons."""
    with Preloaded(tmp_path_factory.mktemp("preloaded")) as forks:
        yield forks


@pytest.fixture(scope="session")
def spark(class_archive, preloaded):
    """The session, and sources of our own that its workers can load."""
    from pyspark import cloudpickle

    from dray.spark.session import spark_session
    from tests.spark import local_queue

    # The tests are no package that Spark's workers could import.
    cloudpickle.register_pickle_by_value(local_queue)
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            set_variables(patch, class_archive)
            session = stack.enter_context(spark_session(name="dray tests"))
        session.sparkContext.pythonExec = str(preloaded.python)
        session.dataSource.register(local_queue.LocalSource)
        yield session


@pytest.fixture
def interpreted(spark):
    """Spark interprets the expressions of queries: their few rows repay no code.

    In other tests it writes and compiles Java code for them, as it does for users.
    """
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name in INTERPRETED:
        spark.conf.unset(name)


class Daemon:
    """A queue manager in a process of its own, at an address that it keeps."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = "dray://127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "dray.cli", "serve", "--data", str(self.directory)]
        command += ["--open", "--listen", self.url.removeprefix("dray://")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        found = re.search(r"dray://[\d.]+:\d+", ready)
        assert found, f"the queue manager said {ready!r}"
        self.url = found[0]

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(100)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def daemon(tmp_path):
    """A queue manager of the test's own."""
    running = Daemon(tmp_path / "manager")
    yield running
    running.end()


@pytest.fixture
def manager(daemon):
    """A connection to it, with a queue for large messages."""
    with dray.connect(daemon.url) as connected:
        connected.create_queue("parcels")
        yield connected


@pytest.fixture
def parcels(manager):
    """The queue, in fragments small enough that every message has some."""
    return dray.LargeMessageQueue(manager.queue("parcels"), fragment_size=10_000)
