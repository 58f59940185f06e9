"""Small transactions: how many share one sync when many clients commit, and how long one waits.

Beside the wait stands its floor: two plain Python programs, of which one sends 1 KiB to the other
and that one writes it and a fact into two files, syncs both and answers. What a lone commit takes
above that is ours; the floor itself is not.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

MESSAGE_BYTES = 1024
CLIENTS = 64
COUNT = 20_000
LONE_COUNT = 1_000
FACT_BYTES = 200
"""What the log takes of a commit of one message."""
PER_SYNC_BAR = 20
LATENCY_BAR = 2.5


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    with ManagerProcess("local", folder, ["--socket", str(folder / "s")]) as process:
        with process.connect() as manager:
            manager.create_queue("small")
        url = f"dray+unix://{folder / 's'}"
        measured = [_round(folder, url) for _ in range(rounds)]
    found = {name: [each[name] for each in measured] for name in measured[0]}
    ratio = statistics.median(
        mine / raw for mine, raw in zip(found["commit"], found["raw"], strict=True)
    )
    shared = statistics.median(found["per sync"])
    return [
        Result(f"messages in one sync, {CLIENTS} clients", "messages", found["per sync"],
               note=f"bar {PER_SYNC_BAR}: {'good' if shared >= PER_SYNC_BAR else 'MISSED'}"),
        Result(f"transactions of {CLIENTS} clients", "1/s", found["rate"]),
        Result("commit of one client alone, p50", "us", found["commit"],
               "4 KiB write+fdatasync, p50", found["raw"],
               note=f"bar {LATENCY_BAR:g}: {'good' if ratio <= LATENCY_BAR else 'MISSED'}"),
        Result("echo with a sync pair, p50", "us", found["echo"],
               "4 KiB write+fdatasync, p50", found["raw"], note="two idle programs: the floor"),
        Result("commit of one client alone, p50", "us", found["commit"],
               "echo with a sync pair, p50", found["echo"]),
        Result("commit of one client alone, p99", "us", found["commit p99"],
               "4 KiB write+fdatasync, p99", found["raw p99"]),
        Result("send without a transaction, p50", "us", found["send"],
               "4 KiB write+fdatasync, p50", found["raw"]),
    ]  # fmt: skip


def _round(folder: Path, url: str) -> dict[str, float]:
    # Before and behind: a disk that others use changes within seconds.
    raw = raw_sync_us(folder)
    floor = {"folder": str(folder), "count": LONE_COUNT // 2, "size": MESSAGE_BYTES}
    echo = [client("echo_with_syncs", fact_bytes=FACT_BYTES, **floor)["echo"]]
    lone = client("commit_alone", url=url, queue="small", count=LONE_COUNT, size=MESSAGE_BYTES)
    echo.append(client("echo_with_syncs", fact_bytes=FACT_BYTES, **floor)["echo"])
    raw = sorted(raw + raw_sync_us(folder))
    many = client(
        "commit_together",
        url=url,
        queue="small",
        count=COUNT,
        size=MESSAGE_BYTES,
        clients=CLIENTS,
    )
    return {
        "raw": statistics.median(raw),
        "raw p99": raw[len(raw) * 99 // 100],
        "echo": statistics.fmean(echo),
        "commit": lone["commit"],
        "commit p99": lone["commit p99"],
        "send": lone["send"],
        "per sync": COUNT / max(many["syncs"], 1),
        "rate": COUNT / many["seconds"],
    }


def raw_sync_us(folder: Path) -> list[float]:
    """How long each of many small writes with its fdatasync took, in microseconds."""
    path = folder / "raw"
    piece = os.urandom(4096)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, LONE_COUNT * len(piece))
    os.fsync(descriptor)
    found = []
    for index in range(LONE_COUNT):
        began = time.perf_counter()
        os.pwrite(descriptor, piece, index * len(piece))
        os.fdatasync(descriptor)
        found.append((time.perf_counter() - began) * 1e6)
    os.close(descriptor)
    path.unlink()
    return found
