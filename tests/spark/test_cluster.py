"""Landing, sink and settling on a real standalone cluster, whose parts are killed."""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dray
from dray.spark import find_java
from tests.spark.conftest import Daemon
from tests.spark.judged import JudgedQueue

pytestmark = [pytest.mark.spark, pytest.mark.torture]

MESSAGES = 30
PROGRAM = Path(__file__).with_name("land_on_cluster.py")
SINK = Path(__file__).with_name("sink_on_cluster.py")
COPIES = Path(__file__).with_name("speculate_on_cluster.py")
BATCHES, ROWS = 6, 40


class Process:
    """A part of the cluster, with a file for what it says."""

    def __init__(self, log: Path, *command: str) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment(), start_new_session=True
            )

    def said(self, pattern: str, within_s: float = 200) -> re.Match[str]:
        """Wait until it says something."""
        until = time.monotonic() + within_s
        while not (found := re.search(pattern, self.log.read_text(errors="replace"))):
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < until, f"{pattern} not said: {self.log}"
            time.sleep(0.1)
        return found

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(100)


def environment() -> dict[str, str]:
    import pyspark

    home = str(find_java().home)
    return os.environ | {
        "JAVA_HOME": home,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def spark_class(name: str, *arguments: str) -> list[str]:
    program = Path(environment()["SPARK_HOME"]) / "bin" / "spark-class"
    return [str(program), f"org.apache.spark.deploy.{name}", *arguments]


@pytest.fixture
def cluster(tmp_path):
    """A master and two workers, and its address."""
    parts = []

    def start(name, *command):
        parts.append(Process(tmp_path / f"{name}.log", *command))
        return parts[-1]

    here = ("--webui-port", "0", "--host")
    try:
        master = start("master", *spark_class("master.Master", "--port", "0", *here, "127.0.0.1"))
        url = master.said(r"Starting Spark master at (spark://[\d.]+:\d+)")[1]
        # On two hosts: Spark runs no speculative copy on the host of the first attempt.
        workers = [
            start(
                f"worker-{number}",
                *spark_class("worker.Worker", *here, f"127.0.0.{number + 1}", "--cores", "2",
                             "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}"), url),
            )
            for number in range(2)
        ]  # fmt: skip
        for worker in workers:
            worker.said("Successfully registered with master")
        yield url, workers
    finally:
        for part in reversed(parts):
            part.kill()


def executors_of(worker: Process) -> list[int]:
    """The processes of executors that a worker has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            command = (each / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == worker.process.pid and b"CoarseGrainedExecutorBackend" in command:
            found.append(int(each.name))
    return found


def await_files(out: Path, count: int, driver: Process) -> None:
    until = time.monotonic() + 400
    while len(list((out / "payload").glob("[!.]*"))) < count:
        assert driver.process.poll() is None, driver.log.read_text()[-3000:]
        assert time.monotonic() < until, driver.log.read_text()[-3000:]
        time.sleep(0.05)


@pytest.mark.timeout(900)
def test_a_landing_on_a_cluster_survives_the_kill_of_an_executor_and_of_a_worker(cluster, tmp_path):
    master, workers = cluster
    managers = [Daemon(tmp_path / f"manager-{number}") for number in range(2)]
    bodies = {}
    for manager in managers:
        with dray.connect(manager.url) as connected:
            parcels = dray.LargeMessageQueue(connected.create_queue("parcels"))
            for number in range(MESSAGES):
                body = random.Random(number).randbytes(1_000_000 + number)
                bodies[parcels.send(body)] = hashlib.sha256(body).hexdigest()
    out = tmp_path / "out"
    urls = ",".join(manager.url for manager in managers)
    driver = Process(tmp_path / "driver.log", sys.executable, str(PROGRAM), master, urls, str(out))
    try:
        await_files(out, 6, driver)
        killed = executors_of(workers[0])
        assert killed, "the first worker has no executor"
        os.kill(killed[0], signal.SIGKILL)
        await_files(out, 14, driver)
        workers[1].kill()
        assert driver.process.wait(600) == 0, driver.log.read_text()[-3000:]
    finally:
        driver.kill()

    assert driver.log.read_text().splitlines()[-1] == f"{master} {2 * MESSAGES} True"
    rows = pq.read_table(out / "table").to_pylist()
    landed = {
        row["sequence_id"]: hashlib.sha256(
            (out / "payload" / row["payload"]).read_bytes()
        ).hexdigest()
        for row in rows
    }
    assert len(rows) == 2 * MESSAGES
    assert landed == bodies
    for manager in managers:
        with dray.connect(manager.url) as connected:
            assert connected.queue("parcels", raw=True).info().message_count == 0
        manager.end()


@pytest.mark.timeout(900)
def test_a_program_that_spark_submit_starts_lands_on_its_cluster(
    cluster, daemon, parcels, tmp_path
):
    master, _ = cluster
    out = tmp_path / "out"
    for number in range(10):
        parcels.send(bytes([number]) * 30_000)
    submit = Path(environment()["SPARK_HOME"]) / "bin" / "spark-submit"
    command = [str(submit), "--master", master, str(PROGRAM), "-", daemon.url, str(out)]

    driver = Process(tmp_path / "driver.log", *command)
    try:
        assert driver.process.wait(600) == 0, driver.log.read_text()[-3000:]
    finally:
        driver.kill()

    assert f"{master} 10 True" in driver.log.read_text().splitlines()
    assert pq.read_table(out / "table").num_rows == 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sink", "settling"])
def test_rows_are_sent_once_from_a_cluster_whose_executor_and_worker_are_killed(
    daemon, manager, cluster, *, tmp_path, kind
):
    """Each dies while its task writes (`sink_on_cluster.py` says when)."""
    rows, orders = manager.create_queue("rows"), manager.create_queue("orders")
    texts, flags = tmp_path / "texts", tmp_path / "flags"
    texts.mkdir()
    flags.mkdir()
    lines = [[f"batch {batch} row {row}" for row in range(ROWS)] for batch in range(BATCHES)]
    for number, batch in enumerate(lines):
        path = texts / f"{number}.txt"
        path.write_text("\n".join(batch) + "\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
        with manager.transaction() as transaction:
            for line in batch:
                orders.send(line.encode(), transaction=transaction)
    source = str(texts) if kind == "sink" else "orders"

    driver = Process(
        tmp_path / "driver.log", sys.executable, str(SINK), kind, cluster[0], daemon.url, source,
        str(flags),
    )  # fmt: skip
    try:
        assert driver.process.wait(600) == 0, driver.log.read_text()[-3000:]
    finally:
        driver.kill()

    assert {path.name for path in flags.iterdir()} >= {"executor", "worker"}
    assert sum(part.process.poll() is not None for part in cluster[1]) == 1
    sent = Counter(line.encode() for batch in lines for line in batch)
    assert Counter(bytes(message.body) for message in rows.messages()) == sent
    transactions = Counter(message.transaction_id for message in rows.messages())
    assert sorted(transactions.values()) == [ROWS] * BATCHES
    assert rows.info().staged_count == 0
    assert orders.info().message_count == (0 if kind == "settling" else BATCHES * ROWS)


@pytest.mark.timeout(900)
def test_a_speculative_copy_of_a_task_doubles_loses_and_leaves_nothing(
    daemon, manager, cluster, tmp_path
):
    """In landing, settling and sink a task ends when its copy has done the same work."""
    out, texts, flags = tmp_path / "out", tmp_path / "texts", tmp_path / "flags"
    texts.mkdir()
    flags.mkdir()
    manager.create_queue("parcels", exist_ok=True)
    judged = JudgedQueue(manager, "parcels", tmp_path / "ledger", seed=4)
    judged.send(10)
    names = ("orders", "settled", "sent")
    orders, settled, sent = (manager.create_queue(name) for name in names)
    rows = [f"row {number}" for number in range(ROWS)]
    orders.send_many([row.encode() for row in rows])
    (texts / "rows.txt").write_text("\n".join(rows) + "\n")

    command = [sys.executable, str(COPIES), cluster[0], daemon.url]
    driver = Process(tmp_path / "driver.log", *command, *map(str, (out, texts, flags)))
    try:
        assert driver.process.wait(800) == 0, driver.log.read_text()[-3000:]
    finally:
        driver.kill()

    assert {path.name for path in flags.glob("*-copied")} == {
        "landing-copied", "settling-copied", "sink-copied",
    }  # fmt: skip
    assert judged.judge(out) == ""
    for queue in (settled, sent):
        found = Counter(bytes(message.body) for message in queue.messages())
        assert found == Counter(row.encode() for row in rows)
        assert queue.info().staged_count == 0
    assert orders.info().message_count == 0
