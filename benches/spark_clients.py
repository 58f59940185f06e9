"""A client of the benchmark of Spark: one session that lands again and again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dray
from benches.processor_time import ProcessorTime

_ASKED = 200


def land_in_turn(
    url: str,
    manager: int,
    out: str,
    *,
    socket: str,
    config: dict[str, str],
    sizes: dict[str, list[int]],
) -> dict[str, Any]:
    """Start a session, then land what `sizes` lists under each name; all in processor seconds.

    A name that ends in "auto" is landed so; the others hold large messages only. One that ends in
    "socket" is landed from the URL `socket`. `manager` is the process of the queue manager, which
    is watched as well. In the end `cp` copies what landed last.
    """
    from dray.spark import land, spark_session

    spent: dict[str, float] = {}
    seconds: dict[str, float] = {}
    with ProcessorTime([os.getpid(), manager]) as watched:

        def measured(name: str, call: Callable[[], object]) -> None:
            before, began = watched.seconds, time.perf_counter()
            call()
            spent[name] = watched.seconds - before
            seconds[name] = time.perf_counter() - began

        before, began = watched.seconds, time.perf_counter()
        with spark_session(config=config) as session:
            session.range(10).count()
            session.range(2, numPartitions=2).mapInArrow(
                lambda batches: batches, "id long"
            ).collect()
            spent["session"] = watched.seconds - before
            seconds["session"] = time.perf_counter() - began
            for name, messages in sizes.items():
                _send(url, name, messages)
                kind = "auto" if name.endswith("auto") else "large"
                door = socket if name.endswith("socket") else url
                measured(name, partial(land, door, name, Path(out) / name, as_=kind))
            copied = ["cp", "-r", str(Path(out) / name), str(Path(out) / "copied")]
            measured("cp", partial(subprocess.run, copied, check=True))
    seconds["cold"] = _land_as_program(url, out)
    spent["latestOffset"] = _latest_offset(url, manager, next(iter(sizes)))
    return {"spent": spent, "seconds": seconds}


def _land_as_program(url: str, out: str) -> float:
    """Seconds of a `dray spark land` of one message, from the start of the program to its end."""
    _send(url, "cold", [1024])
    command = [sys.executable, "-m", "dray.cli", "--url", url, "spark", "land", "cold"]
    began = time.perf_counter()
    subprocess.run(
        [*command, "--as", "large", "--to", str(Path(out) / "cold")],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def _send(url: str, queue: str, sizes: list[int]) -> None:
    body = os.urandom(max(sizes))
    with dray.connect(url) as manager:
        manager.create_queue(queue)
        large = dray.LargeMessageQueue(manager.queue(queue))
        for size in sizes:
            large.send(body[:size])


def _latest_offset(url: str, manager: int, queue: str) -> float:
    """Processor seconds of one call of the planner, with a message to find."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from dray.spark.source.data_source import DraySource

    _send(url, f"{queue}-asked", [1024])
    options = {"url": url, "queue": f"{queue}-asked", "content": "large"}
    source = DraySource(options)
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    reader.latestOffset(start, ReadAllAvailable())
    with ProcessorTime([os.getpid(), manager]) as watched:
        before = watched.seconds
        for _ in range(_ASKED):
            reader.latestOffset(start, ReadAllAvailable())
        return (watched.seconds - before) / _ASKED
