"""Two Spark tasks that pull one long message, against one task, where the disk is no limit.

in memory   store and landing on a file system in memory, by TCP; two `cp` beside one say what this
            machine allows there. Queue manager and both tasks share its processors.
own cables  the same, but each connection has a cable of 1 Gbit/s of its own, as the machines of a
            cluster do: one task then waits for its cable

Both also wait for the start of Spark, which takes a few seconds of each landing. The long message
of `spark_large` shows the same on a disk. Through a Unix socket one task pulls a message, since its
queue manager writes the file.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benches.processes import client
from benches.results import Result
from dray.model.limits import MIB
from dray.testing.processes import ManagerProcess

MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of a random name in it
CABLE_BYTES_A_SECOND = 125_000_000
LONG_FACTOR = 2
TASKS_BAR = 1.5


def run(_folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; with the usual size of 1 GiB, one message of 2 GiB. Needs four times its bytes."""
    long = LONG_FACTOR * size
    told: list[dict[str, Any]] = []
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(prefix="dray-bench-", dir=MEMORY) as work,
            ManagerProcess("source", Path(work), ["--quota", "200GiB"]) as manager,
        ):
            told.append(
                client(
                    "land_by_tasks",
                    port=manager.port,
                    work=work,
                    long=long,
                    cable=CABLE_BYTES_A_SECOND,
                )
            )
    load = f"load {os.getloadavg()[0]:.1f}"
    what = f"a message of {long / MIB:,.0f} MiB"

    def of(name: str) -> list[float]:
        return [each[name] for each in told]

    return [
        Result(f"{what} in memory, two `cp`", "MB/s", of("copy_two"), "cp", of("copy_one")),
        Result(f"{what} in memory, two tasks", "MB/s", of("two"), "one task", of("one"), note=load),
        Result(
            f"{what}, each task by a cable of 1 Gbit/s, two tasks",
            "MB/s",
            of("cable_two"),
            "one task",
            of("cable_one"),
            bar=TASKS_BAR,
            note=load,
        ),
    ]
