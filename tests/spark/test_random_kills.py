"""Drivers that land, settle and send at the same time, and are killed at random."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from dray.spark import find_java
from dray.spark.failure import WORKER_TOO_SLOW
from tests.spark.judged import JudgedQueue

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS_A_VERDICT, STARTS = 25, 20
JAVA_ENDS_WITHIN_S = 200.0
PORT_BYTES_MAX = 200
PORTION = 50
"""Kills of a test in torture: one that is cut short leaves the verdicts of the others."""
PARTS = {"start": 0.2, "work": 0.55, "program": 0.25}
"""Where a driver is killed, and how often: before Spark has started, at its work, or anywhere in
the life of `dray spark land`."""


class Driver:
    """A driver of Spark, forked from a Python that has loaded all modules."""

    def __init__(self, started, out):
        self._started, self._out = started, out
        self._status = None

    def wait_for_spark(self):
        """Wait until it says that Spark has started, or ends before."""
        self._out.readline()

    def wait(self, seconds=None):
        """The status at its end; raises `TimeoutError`."""
        if self._status is None:
            self._status = self._started.wait(seconds)
        return self._status

    def kill(self, *, with_java):
        if with_java:
            # Java ends by itself when it misses its driver.
            with suppress(ProcessLookupError):
                os.killpg(self._started.pid, signal.SIGKILL)
        os.kill(self._started.pid, signal.SIGKILL)
        self.wait()
        self._started.close()


class Pipeline:
    """Three queues, the drivers that work on them, and what must have become of all messages."""

    def __init__(self, manager, url, directory, *, preloaded, seed):
        self.preloaded, self.url, self.directory = preloaded, url, directory
        self.orders, self.rows = map(manager.create_queue, ("orders", "rows"))
        self.parcels = JudgedQueue(manager, "parcels", directory / "sent", seed)
        self.chance = random.Random(seed)
        self.fed, self.said = 0, directory / "said"
        self.takes = dict.fromkeys(PARTS, math.inf)
        for name in ("settled", "texts", "tmp"):
            (directory / name).mkdir()
        self.environment = os.environ | {
            "TMPDIR": str(directory / "tmp"),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def feed(self):
        """Something for each of the three."""
        self.parcels.send(3)
        self.orders.send_many([f"order {self.fed} {at}".encode() for at in range(12)])
        # Spark must not read half of a file.
        fresh = self.directory / f"{self.fed}.txt"
        fresh.write_text("".join(f"row {self.fed} {at}\n" for at in range(12)))
        fresh.rename(self.directory / "texts" / fresh.name)
        self.fed += 1

    @contextmanager
    def driver(self, part):
        """`dray spark land`, or a driver that does all three; killed at the end."""
        module, *arguments = ["tests.spark.pipeline", self.url, str(self.directory)]
        if part == "program":
            module, *arguments = [
                "dray.cli", "spark", "land", "parcels", "--url", self.url,
                "--to", str(self.directory / "out"), "--batch", "100KiB",
            ]  # fmt: skip
        read, write = os.pipe()
        with os.fdopen(read, "rb") as out, self.said.open("wb") as said:
            streams = write, said.fileno()
            started = self.preloaded.start(module, *arguments, env=self.environment, out=streams)
            os.close(write)
            driver = Driver(started, out)
            try:
                yield driver
            finally:
                driver.kill(with_java=self.chance.random() < 0.5)

    def kill_one(self):
        """Kill a driver at any moment, half of the time with its Java; in which part, if any."""
        (part,) = self.chance.choices([*PARTS], [*PARTS.values()])
        if part != "start":
            self.feed()
        with self.driver(part) as driver:
            if part == "work":
                driver.wait_for_spark()
            try:
                status = driver.wait(self.chance.uniform(0, self.takes[part]))
            except TimeoutError:
                return part
            self.check(status)
        # The runs to an end were slower than this one.
        self.takes[part] *= 0.9
        return None

    def check(self, status):
        """A busy machine may be too slow for Spark's own workers; nothing else ends a driver."""
        said = self.said.read_text()
        assert not status or WORKER_TOO_SLOW in said, said
        return not status

    def run_to_end(self, part):
        """Let a driver do all that is there, and see how long it takes."""
        self.wait_for_javas()
        for _ in range(STARTS):
            with self.driver(part) as driver:
                times = [time.monotonic()]
                if part == "work":
                    driver.wait_for_spark()
                    times.append(time.monotonic())
                if self.check(driver.wait()):
                    times.append(time.monotonic())
                    break
        else:
            raise AssertionError(self.said.read_text())
        parts = ["start", part] if part == "work" else [part]
        for name, began, ended in zip(parts, times, times[1:], strict=False):
            self.takes[name] = min(self.takes[name], ended - began)

    def wait_for_javas(self):
        """Wait until the Javas of killed drivers have missed them.

        One that still works would write into a directory while the next session removes it.
        """
        until = time.monotonic() + JAVA_ENDS_WITHIN_S
        while alive := list(processes_with("TMPDIR", self.directory / "tmp")):
            assert time.monotonic() < until, f"{alive} outlive their drivers"
            time.sleep(0.1)

    def judge(self):
        """All that is wrong."""
        landed = self.parcels.judge(self.directory / "out")
        if landed:
            yield landed
        settled = [
            Counter(json.loads(path.read_text())) for path in (self.directory / "settled").iterdir()
        ]
        yield from unlike("settled", sum(settled, Counter()), self.every("order"))
        yield from unlike("left to settle", self.bodies(self.orders), Counter())
        yield from unlike("sent", self.bodies(self.rows), self.every("row"))
        if self.rows.info().staged_count:
            yield f"{self.rows.info().staged_count} rows are staged"
        for path in (self.directory / "tmp").iterdir():
            if not notes_a_port(path):
                yield f"{path.name} is left of a dead driver"

    def every(self, name):
        return Counter(f"{name} {number} {at}" for number in range(self.fed) for at in range(12))

    def bodies(self, queue):
        return Counter(bytes(message.body).decode() for message in queue.messages())


def processes_with(name, value):
    """The ids of the processes that were started with a variable in their environment."""
    for each in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if each.name.isdecimal() and f"{name}={value}" in (
                (each / "environ").read_bytes().decode(errors="replace").split("\0")
            ):
                yield int(each.name)


def notes_a_port(path):
    """Whether PySpark made a directory in which a new Java tells its port.

    It removes the directory when Java has told; a driver that is killed before leaves it behind.
    """
    if not re.fullmatch(r"tmp[a-z0-9_]{8}", path.name) or not path.is_dir():
        return False
    return sum(each.stat().st_size for each in path.iterdir()) <= PORT_BYTES_MAX


def unlike(name, found, wanted):
    if found != wanted:
        yield f"{name}: without {wanted - found}, and besides {found - wanted}"


@pytest.fixture
def pipeline_of(preloaded, daemon, manager, tmp_path):
    """Gives the pipeline with a seed."""
    (tmp_path / "pipeline").mkdir()
    return partial(Pipeline, manager, daemon.url, tmp_path / "pipeline", preloaded=preloaded)


@pytest.mark.timeout(100_000)
@pytest.mark.parametrize(
    ("seed", "kills"),
    [(11, 20), *(pytest.param(seed, PORTION, marks=pytest.mark.torture) for seed in range(10))],
)
def test_drivers_killed_at_random_land_settle_and_send_each_message_once(
    pipeline_of, went_through, seed, kills
):
    """The judge looks every 25 kills, when all that is left has been done."""
    pipeline = pipeline_of(seed=seed)
    for part in ("program", "work"):
        pipeline.feed()
        pipeline.run_to_end(part)
    killed, rounds = Counter(), 0
    while killed.total() < kills:
        rounds += 1
        assert rounds < 5 * kills, "drivers end before they are killed"
        part = pipeline.kill_one()
        if part is None:
            continue
        killed[part] += 1
        if killed.total() == kills or not killed.total() % KILLS_A_VERDICT:
            pipeline.run_to_end("work")
            assert list(pipeline.judge()) == [], f"after {killed}"
            print(f"{dict(killed)} killed in {rounds} rounds: nothing to complain of", flush=True)
    went_through.update({f"kills of a driver of Spark ({part})": killed[part] for part in PARTS})
