"""One large message from a queue manager to another, against this machine's own writing.

Source and destination share this machine's disk, and each writes every byte once: a raw write of
the same bytes is a limit that cannot be reached by more than a half.
"""

from __future__ import annotations

import time
from pathlib import Path

from benches.limits import make_payload, write_fresh_mb_s
from benches.processes import client
from benches.results import Result
from dray.errors import DrayError
from dray.model.limits import FRAGMENT_BYTES_MAX
from dray.testing.processes import ManagerProcess

ARRIVAL_WITHIN_S = 600.0
BAR = 0.5
"""The least part of the raw rate: source and destination each write every byte."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    limit, whole, leg = [], [], []
    for turn in range(rounds):
        work = folder / f"round-{turn}"
        work.mkdir()
        limit.append(write_fresh_mb_s(work, size))
        send_s, arrive_s = send_and_arrive(work, payload)
        whole.append(size / (send_s + arrive_s) / 1e6)
        leg.append(size / arrive_s / 1e6)
    return [
        Result(
            "sent, committed, arrived", "MB/s", whole, "write+fdatasync, fresh file", limit, BAR
        ),
        Result("arrived, from the commit on", "MB/s", leg, "write+fdatasync, fresh file", limit),
    ]


def send_and_arrive(folder: Path, payload: Path) -> tuple[float, float]:
    """Seconds from first byte to commit, and from the commit until all is in the other queue."""
    options = ["--quota", "64GiB"]
    with (
        ManagerProcess("source", folder, options) as source,
        ManagerProcess("destination", folder, options) as destination,
    ):
        with destination.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        queue = f"{destination.url}/large"
        sent = client("send_large", url=source.url, queue=queue, path=str(payload))
        began = time.perf_counter()
        await_arrival(destination, "large", payload.stat().st_size)
        return sent["seconds"], time.perf_counter() - began


def await_arrival(destination: ManagerProcess, queue: str, size: int) -> None:
    """Wait until one large message of `size` bytes is in the queue with all its parts."""
    parts = 2 + -(-size // FRAGMENT_BYTES_MAX)
    deadline = time.monotonic() + ARRIVAL_WITHIN_S
    with destination.connect() as manager:
        while manager.queue(queue).info().message_count < parts:
            if time.monotonic() > deadline:
                raise DrayError(f"the message did not arrive within {ARRIVAL_WITHIN_S:.0f} s")
            time.sleep(0.01)
