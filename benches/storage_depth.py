"""A million queued messages: rates beside those of a thousand, memory, and a start.

The same manager is measured with 1,000 and then with 1,000,000 messages queued; the shallow figure
is the limit of the deep one. Starts are timed after a clean end and after a kill.
"""

from __future__ import annotations

import time
from pathlib import Path

from benches.processes import client, memory
from benches.results import Result
from dray.cli.demo.processes import ManagerProcess

SHALLOW, DEEP = 1_000, 1_000_000
MEASURED = 50_000
BATCH = 100
MESSAGE_BYTES = 1024
RATE_BAR = 0.75
MEMORY_BAR = 160
REOPEN_BAR_S = 10


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    url = f"dray+unix://{folder / 's'}"
    process = ManagerProcess("local", folder, ["--socket", str(folder / "s"), "--quota", "64GiB"])
    with process:
        with process.connect() as manager:
            manager.create_queue("deep")
        _fill(url, SHALLOW)
        shallow = [_rates(url) for _ in range(rounds)]
        before = memory(process.pid)
        _fill(url, DEEP - SHALLOW)
        grown = (memory(process.pid) - before) / (DEEP - SHALLOW)
        deep = [_rates(url) for _ in range(rounds)]
        starts = {"a clean end": [], "a kill": []}  # type: dict[str, list[float]]
        for _ in range(rounds):
            process.stop()
            starts["a clean end"].append(_start(process))
            _rates(url)
            process.kill()
            starts["a kill"].append(_start(process))
    against = f"with {SHALLOW:,} queued"
    return [
        *(
            Result(f"{what} with {DEEP:,} queued", "messages/s", [each[at] for each in deep],
                   against, [each[at] for each in shallow], RATE_BAR)
            for at, what in enumerate(("sent", "received"))
        ),
        Result("memory of a queued message", "bytes", [grown], bar=MEMORY_BAR),
        *(
            Result(f"start with {DEEP:,} queued, after {end}", "s", took, bar=REOPEN_BAR_S)
            for end, took in starts.items()
        ),
    ]  # fmt: skip


def _fill(url: str, count: int) -> None:
    client("send_small", url=url, queue="deep", count=count, size=MESSAGE_BYTES, batch=BATCH,
           threads=4)  # fmt: skip


def _rates(url: str) -> tuple[float, float]:
    sent = client("send_small", url=url, queue="deep", count=MEASURED, size=MESSAGE_BYTES,
                  batch=BATCH, threads=1)  # fmt: skip
    taken = client("receive_small", url=url, queue="deep", count=MEASURED, batch=BATCH)
    return MEASURED / sent["seconds"], MEASURED / taken["seconds"]


def _start(process: ManagerProcess) -> float:
    began = time.perf_counter()
    process.start()
    return time.perf_counter() - began
