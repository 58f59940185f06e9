"""Drivers that land, settle and send at the same time, and are killed at random."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from dray.spark.failure import WORKER_TOO_SLOW
from tests.spark.judged import JudgedQueue

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOUSE = Path(__file__).parents[2]
KILLS_A_VERDICT, STARTS = 20, 20


class Pipeline:
    """Three queues, the driver that works on them, and what must have become of all messages."""

    def __init__(self, manager, url, directory, seed):
        self.manager, self.url, self.directory = manager, url, directory
        self.orders, self.rows = map(manager.create_queue, ("orders", "rows"))
        self.parcels = JudgedQueue(manager, "parcels", directory / "sent", seed)
        self.chance = random.Random(seed)
        self.fed, self.ended, self.said = 0, 0, directory / "said"
        for name in ("settled", "texts", "tmp"):
            (directory / name).mkdir()

    def feed(self):
        """Something for each of the three."""
        self.parcels.send(3)
        self.orders.send_many([f"order {self.fed} {at}".encode() for at in range(12)])
        # Spark must not read half of a file.
        fresh = self.directory / f"{self.fed}.txt"
        fresh.write_text("".join(f"row {self.fed} {at}\n" for at in range(12)))
        fresh.rename(self.directory / "texts" / fresh.name)
        self.fed += 1

    def start(self):
        """A driver whose Spark has started."""
        with self.said.open("wb") as said:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pipeline", self.url, str(self.directory)],
                cwd=HOUSE, env=os.environ | {"TMPDIR": str(self.directory / "tmp")},
                stdout=subprocess.PIPE, stderr=said, start_new_session=True,
            )  # fmt: skip
        with driver.stdout as out:
            assert out.readline() == b"ready\n", self.said.read_text()
        return driver

    def kill_one(self, takes):
        """Kill a driver at any moment, half of the time with its Java; whether it still worked."""
        self.feed()
        driver = self.start()
        try:
            self.check(driver.wait(self.chance.uniform(0, takes)))
        except subprocess.TimeoutExpired:
            return True
        finally:
            if self.chance.random() < 0.5:
                # Java ends by itself when it misses its driver.
                with suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)
            driver.kill()
            driver.wait()
        return False

    def check(self, status):
        """A busy machine may be too slow for Spark's own workers; nothing else ends a driver."""
        said = self.said.read_text()
        assert not status or WORKER_TOO_SLOW in said, said
        return not status

    def run_to_end(self):
        """Seconds that a driver takes for all that is there, once Spark has started."""
        for _ in range(STARTS):
            driver = self.start()
            began = time.monotonic()
            if self.check(driver.wait()):
                return time.monotonic() - began
        raise AssertionError(self.said.read_text())

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
            yield f"{path.name} is left of a dead driver"

    def every(self, name):
        return Counter(f"{name} {number} {at}" for number in range(self.fed) for at in range(12))

    def bodies(self, queue):
        return Counter(bytes(message.body).decode() for message in queue.messages())


def unlike(name, found, wanted):
    if found != wanted:
        yield f"{name}: without {wanted - found}, and besides {found - wanted}"


@pytest.fixture
def pipeline(daemon, manager, tmp_path):
    (tmp_path / "pipeline").mkdir()
    return Pipeline(manager, daemon.url, tmp_path / "pipeline", seed=11)


@pytest.mark.timeout(100_000)
@pytest.mark.parametrize("kills", [20, pytest.param(500, marks=pytest.mark.torture)])
def test_drivers_killed_at_random_land_settle_and_send_each_message_once(pipeline, kills):
    """A judge looks every twenty kills: a long run that is cut short has shown something."""
    pipeline.feed()
    takes = pipeline.run_to_end()
    killed = rounds = 0
    while killed < kills:
        rounds += 1
        assert rounds < 5 * kills, "drivers end before they are killed"
        if not pipeline.kill_one(takes):
            # The first run was slower than this one.
            takes *= 0.9
            continue
        killed += 1
        if not killed % KILLS_A_VERDICT:
            takes = min(takes, pipeline.run_to_end())
            assert list(pipeline.judge()) == [], f"after {killed} kills"
            print(f"{killed} kills, {pipeline.fed} rounds: nothing to complain of", flush=True)
