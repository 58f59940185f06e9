"""How long a queue manager with many gigabytes of large messages takes to start.

Eight times the size that was asked for: 8 GiB unless said otherwise.
"""

from __future__ import annotations

import time
from pathlib import Path

from benches.limits import make_payload
from benches.processes import client
from benches.results import Result
from dray.model.limits import GIB
from dray.testing.processes import ManagerProcess

COPIES = 8
BAR_S = 5


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure with `COPIES` large messages of `size` bytes."""
    payload = make_payload(folder / "payload", size)
    process = ManagerProcess("local", folder, ["--socket", str(folder / "s"), "--quota", "1TiB"])
    starts: dict[str, list[float]] = {"a clean end": [], "a kill": []}
    with process:
        with process.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        url = f"dray+unix://{folder / 's'}"
        for _ in range(COPIES):
            client("send_large", url=url, queue="large", path=str(payload))
        for _ in range(rounds):
            process.kill()
            starts["a kill"].append(_start(process))
            process.stop()
            starts["a clean end"].append(_start(process))
    stored = f"{COPIES * size / GIB:.1f} GiB of large messages"
    return [
        Result(f"start with {stored}, after {end}", "s", took, bar=BAR_S)
        for end, took in starts.items()
    ]


def _start(process: ManagerProcess) -> float:
    began = time.perf_counter()
    process.start()
    return time.perf_counter() - began
