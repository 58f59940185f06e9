"""A client of the benchmark of large landings."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import dray
from benches.own_cables import own_cables
from benches.processor_time import tree_of
from dray.model.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM_BYTES = 16 * MIB
_LOOK_S = 0.1
_AT_ONCE = 64
"""Messages of one transaction: a sync for each message would take longer than their bytes."""
_PIECES = "dray.spark.landing.streams.PIECES_FROM_BYTES"


def land_large(
    socket: str, tcp: str, manager: int, work: str, *, mib: list[int], size: int, long: int
) -> dict[str, Any]:
    """Land `size` bytes in messages of each length, then a long message twice; in MB/s.

    A landing counts from the call to its return. The long message is landed by one task and by two,
    from the URL `tcp`; the rest from `socket`.
    """
    from dray.spark import spark_session

    folder = Path(work)
    rates, copies = {}, {}
    with spark_session() as session:
        _land(socket, folder, "warm", [_WARM_BYTES], session=session)
        for each in mib:
            lengths = [each * MIB] * (size // (each * MIB))
            copies[str(each)] = size / 1e6 / _copy(folder, lengths)
            rates[str(each)] = (
                size / 1e6 / _land(socket, folder, f"of-{each}", lengths, session=session)
            )
        copy_two = long / 1e6 / _copy(folder, [long // 2] * 2, at_once=True)
        with mock.patch(_PIECES, 1 << 62):
            one = long / 1e6 / _land(tcp, folder, "one", [long], session=session)
        idle = _memory(tree_of([os.getpid(), manager]))
        with _peak([os.getpid(), manager]) as peak:
            two = long / 1e6 / _land(tcp, folder, "two", [long], session=session)
    return {
        "rates": rates, "copies": copies, "copy_two": copy_two, "one": one,
        "two": two, "peak": peak() - idle,
    }  # fmt: skip


def land_by_tasks(port: int, work: str, *, long: int, cable: int) -> dict[str, float]:
    """Land a long message by one task and by two, without and with a cable for each task; in MB/s.

    A cable takes that many bytes a second. Two `cp` copy half of the message each.
    """
    from dray.spark import spark_session

    folder, rates = Path(work), {}
    rates["copy_one"] = long / 1e6 / _copy(folder, [long])
    rates["copy_two"] = long / 1e6 / _copy(folder, [long // 2] * 2, at_once=True)
    with spark_session() as session, own_cables(port, cable) as cabled:
        for name, its_port in (("", port), ("cable_", cabled)):
            url = f"dray://127.0.0.1:{its_port}"
            _land(url, folder, f"{name}warm", [_WARM_BYTES], session=session)
            with mock.patch(_PIECES, 1 << 62):
                one = _land(url, folder, f"{name}first", [long], session=session)
            two = _land(url, folder, f"{name}second", [long], session=session)
            rates |= {f"{name}one": long / 1e6 / one, f"{name}two": long / 1e6 / two}
    return rates


def _land(url: str, folder: Path, name: str, lengths: list[int], *, session: SparkSession) -> float:
    """Send the messages, land them, remove them; the seconds of the landing."""
    from dray.spark import land

    source = _source(folder, max(lengths))
    with dray.connect(url) as manager:
        manager.create_queue(name)
        large = dray.LargeMessageQueue(manager.queue(name))
        for first in range(0, len(lengths), _AT_ONCE):
            with manager.transaction() as transaction:
                for _ in lengths[first : first + _AT_ONCE]:
                    large.send(source, transaction=transaction)
    os.sync()
    began = time.perf_counter()
    summary = land(url, name, folder / "out" / name, as_="large", session=session)
    seconds = time.perf_counter() - began
    assert summary.files == len(lengths)
    shutil.rmtree(folder / "out")
    return seconds


def _copy(folder: Path, lengths: list[int], *, at_once: bool = False) -> float:
    """The seconds that `cp` takes for files of these lengths, each synced as a landing does.

    `at_once` copies all of them at one time, not one by one.
    """
    source, target = _source(folder, max(lengths)), folder / "copies"
    target.mkdir()
    os.sync()
    names = map(str, range(len(lengths)))
    began = time.perf_counter()
    with ThreadPoolExecutor(len(lengths) if at_once else 1) as threads:
        list(threads.map(partial(_copy_synced, source), map(target.joinpath, names)))
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return seconds


def _copy_synced(source: Path, target: Path) -> None:
    subprocess.run(["/bin/cp", source, target], check=True)
    with target.open("rb") as file:
        os.fdatasync(file.fileno())


def _source(folder: Path, length: int) -> Path:
    """A file of random bytes, made once for each length."""
    path = folder / f"source-{length}"
    if not path.exists():
        for other in folder.glob("source-*"):
            other.unlink()
        block = os.urandom(min(length, 16 * MIB))
        with path.open("wb") as file:
            while file.tell() < length:
                file.write(block[: length - file.tell()])
    return path


@contextmanager
def _peak(roots: list[int]) -> Iterator[Callable[[], int]]:
    """The most memory that processes and all that they start have together meanwhile, in bytes."""
    most, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            most.append(max(most.pop(), _memory(tree_of(roots))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        over.set()
        thread.join()


def _memory(processes: set[int]) -> int:
    """The memory of some processes, in bytes; pages that they share count for a part of each."""
    total = 0
    for pid in processes:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(
            int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")
        )
    return total
