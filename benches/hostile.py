"""An honest caller among 1,001 hostile ones of seven kinds, beside one that is alone.

Two queue managers run. The hostile callers are at one of them; the honest caller sends and receives
small messages at both by turns, so that whatever else the machine does slows both. The last row is
the processor time that the hostile callers cost while nobody else works.
"""

from __future__ import annotations

import resource
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import dray
from benches.processes import processor_s
from benches.results import Result
from dray.testing.processes import ManagerProcess
from tests.hostile import Hostile

HOSTILE = 1_001
MESSAGES = 200
MEDIAN_RATIO_MAX, P99_RATIO_MAX = 1.5, 3.0
IDLE_S = 2.0


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; the messages are small whatever the size."""
    del size
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        return _measured(folder, rounds)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _measured(folder: Path, rounds: int) -> list[Result]:
    with ExitStack() as stack:
        queues, managers = [], []
        for name in ("alone", "among"):
            options = ["--socket", str(folder / f"{name}.sock")]
            manager = stack.enter_context(ManagerProcess(name, folder, options))
            managers.append(manager)
            client = stack.enter_context(dray.connect(f"dray+unix://{folder}/{name}.sock"))
            client.create_queue("orders")
            queues.append(client.create_queue("honest"))
        among = managers[1]
        lent = stack.enter_context((folder / "lent").open("w+b"))
        for queue in queues:
            _waits(queue)
        pairs, costs = [], []
        for _ in range(rounds):
            # The queue manager ends hostile callers after a while, so each round has new ones.
            hostile = Hostile(among.url, f"dray+unix://{folder}/among.sock", lent.fileno())
            hostile.come(HOSTILE)
            try:
                pairs.append([_waits(queue) for queue in queues])
                began = processor_s(among.pid)
                time.sleep(IDLE_S)
                costs.append(100 * (processor_s(among.pid) - began) / IDLE_S)
            finally:
                hostile.leave()
    found = []
    for name, at, most in (("p50", 49, MEDIAN_RATIO_MAX), ("p99", 98, P99_RATIO_MAX)):
        alone, beside = (
            [1_000 * statistics.quantiles(pair[which], n=100)[at] for pair in pairs]
            for which in (0, 1)
        )
        ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
        note = f"bar {most:g} times: {'good' if ratio <= most else 'MISSED'}"
        found.append(
            Result(f"a send and a receive: {name}", "ms", beside, "alone", alone, note=note)
        )
    note = f"{HOSTILE} hostile callers, no honest one"
    return [*found, Result("processor", "% of one", costs, note=note)]


def _waits(queue: dray.Queue) -> list[float]:
    """How long each send and receive takes, in seconds."""
    taken = []
    for number in range(MESSAGES):
        began = time.perf_counter()
        queue.send(b"%d" % number)
        queue.receive(timeout=60)
        taken.append(time.perf_counter() - began)
    return taken
