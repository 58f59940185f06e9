"""Landings in one Spark session, in processor seconds of all its processes and the queue manager.

Every round starts a session with Dray's worker daemon and one with Spark's own, in turns. Landings
go by TCP; those whose name ends in "socket" through the Unix socket, where files are lent.
"""

from __future__ import annotations

import os
from pathlib import Path

from benches.processes import client
from benches.results import Result
from dray.spark.session import WORKER_DAEMON
from dray.testing.processes import ManagerProcess

MESSAGE_BYTES = 16 << 20
BATCH_MESSAGES = 16
FURTHER_BATCHES = 3
_MODULE = "spark.python.daemon.module"
_DAEMONS = {"Dray's daemon": WORKER_DAEMON, "Spark's daemon": "pyspark.daemon"}
_SIZES = {
    "first": [MESSAGE_BYTES] * BATCH_MESSAGES,
    "single": [MESSAGE_BYTES],
    "single-auto": [MESSAGE_BYTES],
    "longer": [MESSAGE_BYTES] * BATCH_MESSAGES * FURTHER_BATCHES,
    "longer-socket": [MESSAGE_BYTES] * BATCH_MESSAGES * FURTHER_BATCHES,
}
"""The longest is the last: `cp` copies its files, for what the kernel takes for as many bytes."""


def run(folder: Path, _size: int, rounds: int) -> list[Result]:
    """Measure; the sizes are those of the bars, whatever size is asked for."""
    told: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in _DAEMONS}
    loads = []
    for turn in range(rounds):
        for name, module in _DAEMONS.items():
            work = folder / f"round-{turn}-{module}"
            work.mkdir()
            socket = work / "s"
            options = ["--quota", "64GiB", "--socket", str(socket)]
            with ManagerProcess("source", work, options) as manager:
                told[name].append(
                    client(
                        "land_in_turn",
                        url=manager.url,
                        socket=f"dray+unix://{socket}",
                        manager=manager.pid,
                        out=str(work / "landed"),
                        config={_MODULE: module},
                        sizes=_SIZES,
                    )
                )
            loads.append(os.getloadavg()[0])
    load = f"load {min(loads):.1f} to {max(loads):.1f}"
    return [result for name, each in told.items() for result in _results(name, each, load)]


def _results(daemon: str, told: list[dict[str, dict[str, float]]], load: str) -> list[Result]:
    barred = daemon == next(iter(_DAEMONS))

    def result(what: str, spent: list[float], bar: float | None = None, note: str = "") -> Result:
        kept = bar if barred else None
        return Result(f"{what}, {daemon}", "CPU s", spent, bar=kept, note=note)

    def of(kind: str, name: str) -> list[float]:
        return [each[kind][name] for each in told]

    wall = sorted(of("seconds", "first"))[len(told) // 2]
    single = of("spent", "single")

    def further(name: str) -> list[float]:
        return [
            (long - short) / (FURTHER_BATCHES - 1 / BATCH_MESSAGES)
            for long, short in zip(of("spent", name), single, strict=True)
        ]

    cold = [
        each - warm
        for each, warm in zip(of("seconds", "cold"), of("seconds", "single"), strict=True)
    ]
    asked = [each * 1000 for each in of("spent", "latestOffset")]
    results = [
        result("session, first SQL and Python job", of("spent", "session"), note=load),
        result("first landing, 256 MiB", of("spent", "first"), 6.0, f"{wall:.1f} s of wall"),
        result("another landing, 1 message", single, 1.5),
        result("the same, for both kinds of messages", of("spent", "single-auto")),
        result("each further 256 MiB", further("longer"), 0.5),
        result("the same, through the socket", further("longer-socket"), 0.5),
        result("`cp` of 256 MiB", [each / FURTHER_BATCHES for each in of("spent", "cp")]),
        Result(f"latestOffset, {daemon}", "CPU ms", asked, bar=2.0 if barred else None),
    ]
    if barred:
        # The command has a daemon of its own, whatever the session of the round has.
        told_s = "`dray spark land` of 1 message, from its start, over a warm landing"
        results.append(Result(told_s, "s", cold, bar=12.0))
    return results
