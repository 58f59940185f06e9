"""Python processes that have loaded Spark's and Dray's modules, each a fork of one that has.

A driver of Spark is a Python program, and its Java starts about eight more: the planners of its
queries, and the daemon of its workers. Each loads modules for a processor second and longer.

    python -m tests.spark.preloaded DIRECTORY     forks, until its standard input ends
    DIRECTORY/socket                              takes a program, and tells how it ends
    DIRECTORY/python                              in the place of Python, for `-m MODULE`

Each program is a process of its own, with its own arguments, environment, directory and standard
streams. `python` waits for its program, and whoever ends `python` ends the program as well.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.forked_program import run_to_its_end
from tests.spark import preloaded_python
from tests.spark.preloaded_python import Started

REQUEST_BYTES_MAX = 1 << 17
STREAMS = 3
MODULES = (
    "dray.cli.commands.spark", "dray.spark_workers", "dray_program", "dray.spark.landing.landing",
    "dray.spark.landing.puller", "dray.spark.settle_batches", "dray.spark.sink.writers",
    "dray.spark.source.data_source", "numpy", "pandas", "pyarrow.parquet", "pyspark.daemon",
    "pyspark.sql", "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write", "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source", "pyspark.worker",
)  # fmt: skip
HOUSE = Path(__file__).parents[2]
_PYTHON = """#!/bin/sh
# Written by {module}: a Python that has loaded its modules.
[ "$1" = -m ] || exec '{python}' "$@"
exec '{python}' -I -S '{source}' '{socket}' "$@"
"""


class Preloaded:
    """The process that forks, from the side of a test; a context manager."""

    def __init__(self, directory: Path) -> None:
        """Start it in an empty directory, and wait until it has loaded."""
        self.python = directory / "python"
        self._socket = str(directory / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.preloaded", str(directory)], cwd=HOUSE,
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout.readline() == b"ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate(timeout=100)

    def start(self, module, *arguments, env, out):
        """Start a program in a session of its own; `out` is for what it says, on both streams."""
        asked = {"module": module, "arguments": arguments, "environment": env, "cwd": str(HOUSE)}
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), *out]
            return Started(self._socket, asked | {"own_session": True}, streams)


class Forks:
    """The process that forks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(directory / "socket"))
        self._listening.listen(64)
        self._selector.register(self._listening, selectors.EVENT_READ, self._start)
        self._selector.register(0, selectors.EVENT_READ, self._end)
        self._callers: dict[int, socket.socket] = {}
        self._ended = False
        self.program = None

    def serve(self):
        """Fork for each request; gives the program in its process, nothing at the end."""
        while not self._ended and self.program is None:
            for key, _ in self._selector.select():
                if key.fileobj in self._selector.get_map():
                    key.data(key.fileobj)
                if self.program is not None:
                    break
        return self.program

    def _start(self, _):
        caller, _ = self._listening.accept()
        request, streams, _, _ = socket.recv_fds(caller, REQUEST_BYTES_MAX, STREAMS)
        if not request:
            # The caller was killed before it could ask.
            caller.close()
            return
        if not (pid := os.fork()):
            self._let_go(caller)
            self.program = json.loads(request), streams
            return
        for each in streams:
            os.close(each)
        process = os.pidfd_open(pid)
        self._callers[process] = caller
        self._selector.register(process, selectors.EVENT_READ, self._has_ended)
        self._selector.register(
            caller, selectors.EVENT_READ, lambda _: self._forget(pid, process, caller)
        )
        _tell(caller, pid)

    def _has_ended(self, process):
        """Say how a program ended; its id is not free before its caller has gone."""
        self._selector.unregister(process)
        told = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
        status = told.si_status if told.si_code == os.CLD_EXITED else -told.si_status
        _tell(self._callers[process], status)

    def _forget(self, pid, process, caller):
        if process in self._selector.get_map():
            self._selector.unregister(process)
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(process)
        self._selector.unregister(caller)
        del self._callers[process]
        caller.close()

    def _end(self, _):
        self._ended = True
        for process, caller in list(self._callers.items()):
            self._selector.get_key(caller).data(process)

    def _let_go(self, caller):
        """In a program: leave to the parent what belongs to it."""
        self._selector.close()
        self._listening.close()
        caller.close()
        for process, each in self._callers.items():
            os.close(process)
            each.close()


def _tell(caller, number):
    """Say a number to a caller. The end of one that was killed is noticed where it is read."""
    with suppress(BrokenPipeError):
        caller.send(b"%d" % number)


def become(asked, streams):
    """Make this process what a new one would be."""
    import numpy as np

    if asked["own_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    time.tzset()
    tempfile.tempdir = None
    random.seed()
    np.random.seed()  # noqa: NPY002 - whoever uses the state of all
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["masked"])
    # A driver has its Java start this one for its workers.
    sys.executable = asked["executable"]


def fork_for_all(directory):
    """Load, then fork until standard input ends; and in each fork be its program."""
    # As `dray.spark_workers` does: a fork has one thread only.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in MODULES:
        importlib.import_module(name)
    python = directory / "python"
    python.write_text(
        _PYTHON.format(
            module="tests.spark.preloaded", python=sys.executable, source=preloaded_python.__file__,
            socket=directory / "socket",
        )
    )  # fmt: skip
    python.chmod(0o755)
    gc.freeze()
    forks = Forks(directory)
    print("ready", flush=True)
    program = forks.serve()
    if program is not None:
        asked, streams = program
        become(asked, streams)
        run_to_its_end(asked["module"], asked["arguments"])


if __name__ == "__main__":
    fork_for_all(Path(sys.argv[1]))
