"""Landings of large messages in a warm Spark session, against `cp` and a sync of each file.

rates      2 GiB in messages of 1, 16 and 512 MiB; a session is warm when it has landed once
two tasks  one long message pulled by two tasks, against one task; the peak of all processes
two `cp`   two halves of the long message copied at once, against one copy: what the disk allows

The rates are through the Unix socket, where files are lent; the long message goes by TCP: only
there several tasks pull one message. `--size 4GiB` lands a message of 8 GiB. No round begins
that would end after four minutes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benches.processes import client
from benches.results import Result
from dray.model.limits import MIB
from dray.testing.processes import ManagerProcess

BARS = {1: 0.3, 16: 0.4, 512: 0.4}
"""By MiB of a message: the least part of the rate of `cp` that will do."""
SIZE_FACTOR = 2
LONG_FACTOR = 2
TASKS_BAR = 1.5
PEAK_BAR_MIB = 1024
WITHIN_S = 240
"""No round begins that would end later if it took as long as the one before."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; with the usual size of 1 GiB, 2 GiB of messages and one message of 2 GiB."""
    told: list[dict[str, Any]] = []
    began = time.monotonic()
    for turn in range(rounds):
        spent = time.monotonic() - began
        if told and spent + spent / len(told) > WITHIN_S:
            break
        work = folder / f"round-{turn}"
        work.mkdir()
        socket = work / "s"
        options = ["--quota", "200GiB", "--socket", str(socket)]
        with ManagerProcess("source", work, options) as manager:
            told.append(
                client(
                    "land_large",
                    socket=f"dray+unix://{socket}",
                    tcp=manager.url,
                    manager=manager.pid,
                    work=str(work),
                    mib=list(BARS),
                    size=SIZE_FACTOR * size,
                    long=LONG_FACTOR * size,
                )
            )
    load = f"load {os.getloadavg()[0]:.1f}"
    results = [
        Result(
            f"{SIZE_FACTOR * size / MIB:,.0f} MiB in messages of {mib} MiB",
            "MB/s",
            [each["rates"][str(mib)] for each in told],
            "cp, fdatasync",
            [each["copies"][str(mib)] for each in told],
            bar=bar,
            note=load,
        )
        for mib, bar in BARS.items()
    ]
    long = f"a message of {LONG_FACTOR * size / MIB:,.0f} MiB"
    return [
        *results,
        Result(
            f"{long}, two tasks",
            "MB/s",
            [each["two"] for each in told],
            "one task",
            [each["one"] for each in told],
            bar=TASKS_BAR,
        ),
        Result(
            f"{long}, two `cp` at once",
            "MB/s",
            [each["copy_two"] for each in told],
            "cp, 512 MiB",
            [each["copies"]["512"] for each in told],
        ),
        Result(
            f"{long}, memory of all processes over an idle session",
            "MiB",
            [each["peak"] / MIB for each in told],
            bar=PEAK_BAR_MIB,
        ),
    ]
