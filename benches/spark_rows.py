"""Small messages in Spark: rows for each processor second, triggers, the start of a long landing.

The same rows are read as Parquet, in turns and in the same session: that is the limit. A trigger is
measured beside one of Spark's rate source with as many rows, and into `noop`, where Python reads
them, also beside a rate source whose rows pass a task of Python.
"""

from __future__ import annotations

import os
from pathlib import Path

from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

ROWS = 1_000_000
ROW_BYTES = 1024
LANDED = 1_000_000
COMMITS = 1_000
TRIGGERS = (
    ("foreachBatch", "rate", "rate source", 1.15),
    ("noop", "rate", "rate source", None),
    ("noop", "rate in Python", "rate source through Python", 1.15),
)
"""The sink, the source beside, and how many times as long as one of that source a trigger may take.
Into `noop` a task of Python reads the rows of Dray."""
_MIB = 1 << 20


def run(folder: Path, _size: int, rounds: int) -> list[Result]:
    """Measure; the numbers are those of the bars, whatever size is asked for."""
    with ManagerProcess("source", folder, ["--quota", "64GiB"]) as manager:
        rates = client(
            "read_rows",
            url=manager.url,
            manager=manager.pid,
            folder=str(folder),
            rows=ROWS,
            size=ROW_BYTES,
            rounds=rounds,
        )
        triggers = client(
            "trigger_queries", url=manager.url, folder=str(folder / "triggers"), rounds=rounds
        )
    opened = [
        client("open_table", folder=str(folder / f"{turn}"), rows=LANDED, commits=COMMITS)
        for turn in range(rounds)
    ]
    load = f"load {os.getloadavg()[0]:.1f}"
    table = f"table of {LANDED:,} messages in {COMMITS:,} commits"

    def of(name: str, unit: float = 1) -> list[float]:
        return [each[name] / unit for each in opened]

    return [
        Result(
            f"{ROW_BYTES} byte messages, inline",
            "rows/CPU s",
            rates["dray"],
            "warm Parquet",
            rates["parquet"],
            0.2,
            load,
        ),
        Result("the same, for one row", "CPU us", [1e6 / each for each in rates["dray"]], bar=8.0),
        *(
            Result(
                f"a trigger, into {sink}",
                "ms",
                triggers[f"dray, {sink}"],
                beside,
                triggers[f"{source}, {sink}"],
                bar,
                load,
                turned=True,
            )
            for sink, source, beside, bar in TRIGGERS
        ),
        Result(f"{table}: a landing begins", "s", of("new_s"), bar=2.0),
        Result("the same, memory", "MiB", of("new_bytes", _MIB), bar=64.0),
        Result("the same, after a crash", "s", of("known_s"), bar=2.0),
        Result("the same, memory", "MiB", of("known_bytes", _MIB), bar=64.0),
    ]
