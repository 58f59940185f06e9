"""Small messages, 1 KiB, 100 in a transaction, from one process, against single synced writes.

A client that waits for every commit can at best do as many commits as the disk does syncs; what
there is more in messages a second comes from many messages in one transaction and one sync.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benches.limits import syncs_per_s
from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

MESSAGE_BYTES = 1024
BATCH = 100
COUNT = 100_000
BAR_PER_S = 30_000


THREADS = (1, 4)


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    results = []
    with ManagerProcess("local", folder, ["--socket", str(folder / "s")]) as process:
        with process.connect() as manager:
            manager.create_queue("small")
        for threads in THREADS:
            measured = [_round(folder, threads) for _ in range(rounds)]
            results += _results(threads, measured)
    return results


def _round(folder: Path, threads: int) -> dict[str, float]:
    url = f"dray+unix://{folder / 's'}"
    limit = syncs_per_s(folder)
    done = client(
        "send_small",
        url=url,
        queue="small",
        count=COUNT,
        size=MESSAGE_BYTES,
        batch=BATCH,
        threads=threads,
    )
    taken = client("receive_small", url=url, queue="small", count=COUNT, batch=BATCH)
    return {
        "limit": limit,
        "sent": COUNT / done["seconds"],
        "received": COUNT / taken["seconds"],
        "syncs": done["syncs"],
        "per sync": COUNT / max(done["syncs"], 1),
    }


def _results(threads: int, measured: list[dict[str, float]]) -> list[Result]:
    found = {name: [each[name] for each in measured] for name in measured[0]}
    verdict = "good" if statistics.median(found["sent"]) >= BAR_PER_S else "MISSED"
    against, limit = "4 KiB write+fdatasync a second", found["limit"]
    who = "one thread" if threads == 1 else f"{threads} threads"
    results = [
        Result(f"sent, {who}", "messages/s", found["sent"], against, limit,
               note=f"bar {BAR_PER_S:,}/s: {verdict}"),
        Result(f"transactions, {who}", "1/s", [rate / BATCH for rate in found["sent"]],
               against, limit),
        Result(f"syncs for {COUNT:,} messages, {who}", "syncs", found["syncs"]),
        Result(f"messages in one sync, {who}", "messages", found["per sync"]),
    ]  # fmt: skip
    if threads == 1:
        results.append(
            Result("received, one thread", "messages/s", found["received"], against, limit)
        )
    return results
