"""100,000 messages of 1 KiB through two queue managers on loopback, durable on both.

From the first send, in transactions of 100 by four threads, until the last message is in the queue
of the other queue manager.
"""

from __future__ import annotations

from pathlib import Path

from benches.delivery import timed_arrival
from benches.results import Result

COUNT, SIZE_BYTES, BATCH, THREADS = 100_000, 1024, 100, 4
BAR_PER_S = 40_000


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    arguments = {"count": COUNT, "size": SIZE_BYTES, "batch": BATCH, "threads": THREADS}
    rates = [
        COUNT / timed_arrival(folder / f"round-{turn}", None, "send_small", arguments)
        for turn in range(rounds)
    ]
    what = "1 KiB through two queue managers"
    return [Result(what, "messages/s", rates, bar=BAR_PER_S, turned=True)]
