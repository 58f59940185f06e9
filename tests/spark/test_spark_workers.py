"""Workers of Spark are forked from a process that has imported what they need."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from dray.spark_workers import acknowledging_at_once

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def told_by_two_workers(spark, folder):
    """What two workers that run at one time tell of themselves and of their daemon."""

    def tell(batches):
        import json
        import os
        import sys
        import time

        before = sorted(sys.modules)

        import numpy as np

        # Two tasks that wait for each other have a worker each.
        Path(folder, str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        daemon = Path("/proc", str(os.getppid()))
        told = {
            "pid": os.getpid(),
            "modules": before,
            "main": sys.modules["pyspark.worker"].main.__qualname__,
            "drawn": np.random.random(),  # noqa: NPY002 - what UDFs draw by default
            "daemon": (daemon / "cmdline").read_text().split("\0"),
            "threads": len(list((daemon / "task").iterdir())),
        }
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"told": [json.dumps(told)]})

    import json

    rows = spark.range(2, numPartitions=2).mapInArrow(tell, "told string").collect()
    return [json.loads(row.told) for row in rows]


@pytest.fixture(scope="module")
def workers(spark, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # The session of the tests has another program start Python, with more imports.
        patch.setattr(spark.sparkContext, "pythonExec", sys.executable)
        return told_by_two_workers(spark, str(tmp_path_factory.mktemp("workers")))


def test_a_worker_begins_with_pandas_arrow_and_dray_imported(workers):
    for each in workers:
        assert {"pandas", "pyarrow", "dray.spark.source.data_source"} <= set(each["modules"])
        assert "dray.spark_workers" in each["daemon"]


def test_the_daemon_has_one_thread_when_it_forks(workers):
    """A fork copies the locks of other threads, and nobody is left to release them."""
    assert [each["threads"] for each in workers] == [1, 1]


def test_two_workers_draw_different_numbers(workers):
    first, second = workers
    assert first["pid"] != second["pid"]
    assert first["drawn"] != second["drawn"]


def test_a_worker_acknowledges_what_java_sends_at_once(workers):
    """Linux delays by 40 ms once a worker has answered, and Java waits for it in each task."""
    for each in workers:
        assert each["main"] == acknowledging_at_once(print).__qualname__


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_task_begins_with_acknowledgments_at_once_whatever_its_socket_is(family):
    def is_at_once(end):
        return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    ran = []

    def task(infile, outfile):
        outfile.write(infile.read(5))
        ran.append(family == socket.AF_UNIX or is_at_once(worker))

    worker, java = connected(family)
    with closing(worker), closing(java):
        if family == socket.AF_INET:
            worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            assert not is_at_once(worker)
        java.sendall(b"hello")
        with worker.makefile("rb") as infile, worker.makefile("wb") as outfile:
            acknowledging_at_once(task)(infile, outfile)
        assert java.recv(5) == b"hello"

    assert ran == [True]


def connected(family):
    """Both ends of a connection."""
    if family == socket.AF_UNIX:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        java = socket.create_connection(listening.getsockname())
        return listening.accept()[0], java


def test_a_process_that_plans_imports_nothing_that_it_does_not_need():
    """Spark starts about seven of them for a first landing, and pandas takes each half a second."""
    script = (
        "import sys, dray.spark.source.data_source, dray.spark.landing.puller\n"
        "print(*sorted({'pandas', 'fsspec', 'dray.folders', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split() == []
