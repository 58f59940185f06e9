"""Recoverable messages of 1 to 4 MB one after another, against raw writes with a sync each.

The raw way writes the same sizes into a file that was allocated before, and waits for an fdatasync
after each: all that a store could at best do. Beside it the store alone, without a client; and one
client with a queue manager, first into heap files that have to be made, then into those again.
"""

from __future__ import annotations

import os
import shutil
import time
from itertools import cycle, islice
from pathlib import Path

from benches.processes import client
from benches.results import Result
from dray.store.limits import HEAP_FILE_BYTES
from dray.store.real_disk import RealDisk
from dray.store.store import Store
from dray.testing.processes import ManagerProcess

SIZES = (1_000_000, 2_000_000, 4_000_000)
COUNT = 120
BAR = 0.6


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    measured = [_round(folder / f"round-{turn}") for turn in range(rounds)]
    rates = {name: [each[name] for each in measured] for name in measured[0]}
    against = "write+fdatasync of the same, allocated file"
    return [
        Result("the store alone, new files", "MB/s", rates["store, new"], against, rates["raw"]),
        Result("the store alone, files used before", "MB/s", rates["store, used"], against,
               rates["raw"], BAR),
        Result("one client, one a commit, new files", "MB/s", rates["one, new"], against,
               rates["raw"]),
        Result("one client, one a commit, files used before", "MB/s", rates["one, used"], against,
               rates["raw"], BAR),
        Result("one client, eight a commit, files used before", "MB/s", rates["eight, used"],
               f"{against}, eight a sync", rates["raw, eight"], BAR),
    ]  # fmt: skip


def _round(place: Path) -> dict[str, float]:
    place.mkdir()
    found = {"raw": raw_mb_s(place, 1), "raw, eight": raw_mb_s(place, 8)}
    found["store, new"], found["store, used"] = _store_mb_s(place / "store")
    found["one, new"], found["one, used"] = _sent_mb_s(place / "one", 1)
    _, found["eight, used"] = _sent_mb_s(place / "eight", 8)
    shutil.rmtree(place)
    return found


def raw_mb_s(folder: Path, at_once: int) -> float:
    """The rate of writing the same sizes into allocated files of 4 MiB, with fdatasyncs."""
    sizes = list(islice(cycle(SIZES), COUNT))
    piece = os.urandom(max(SIZES))
    path = folder / "raw"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, COUNT * HEAP_FILE_BYTES)
    os.fsync(descriptor)
    began = time.perf_counter()
    for index, size in enumerate(sizes):
        os.pwrite(descriptor, memoryview(piece)[:size], index * HEAP_FILE_BYTES)
        if (index + 1) % at_once == 0:
            os.fdatasync(descriptor)
    rate = sum(sizes) / (time.perf_counter() - began) / 1e6
    os.close(descriptor)
    path.unlink()
    return rate


def _store_mb_s(folder: Path) -> list[float]:
    """The rate of a store, into new files and into those again."""
    store = Store(RealDisk(folder))
    store.recover(lambda *_: ())
    bodies = [os.urandom(size) for size in SIZES]
    rates = []
    for _ in range(2):
        places = []
        began = time.perf_counter()
        for body in islice(cycle(bodies), COUNT):
            places.append(store.place(body))
            store.append(b"placed")
            store.sync()
        rates.append(sum(place.length for place in places) / (time.perf_counter() - began) / 1e6)
        for place in places:
            store.release(place)
        store.append(b"released")
        store.sync()
    store.close()
    return rates


def _sent_mb_s(folder: Path, at_once: int) -> list[float]:
    """The rate of one client, into new files and into those again."""
    folder.mkdir()
    rates = []
    with ManagerProcess("local", folder, ["--socket", str(folder / "s")]) as process:
        with process.connect() as manager:
            manager.create_queue("big")
        for _ in range(2):
            done = client(
                "send_big",
                url=f"dray+unix://{folder / 's'}",
                queue="big",
                sizes=list(SIZES),
                count=COUNT,
                batch=at_once,
            )
            rates.append(done["bytes"] / done["seconds"] / 1e6)
            with process.connect() as manager:
                manager.queue("big").purge()
    return rates
