"""By how much every process on the way grows while one large message goes through two managers.

The peak of resident memory (VmHWM) minus what the process had before, for sender, source manager,
destination manager and receiver, each a process of its own.
"""

from __future__ import annotations

from pathlib import Path

from benches.limits import make_payload
from benches.processes import client, peak, reset_peak
from benches.results import Result
from benches.transfer import await_arrival
from dray.model.limits import MIB
from dray.testing.processes import ManagerProcess

BAR_MIB = 64
SIZE_FACTOR = 2
"""Twice the size of the other benchmarks: 2 GiB unless said otherwise."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure once: memory does not vary as time does."""
    del rounds
    size *= SIZE_FACTOR
    payload = make_payload(folder / "payload", size)
    growth = measure(folder, payload)
    return [
        Result(f"{name}, {size / MIB:,.0f} MiB through it", "MiB", [grown / MIB], bar=BAR_MIB)
        for name, grown in growth.items()
    ]


def measure(folder: Path, payload: Path) -> dict[str, float]:
    """Bytes by which each process grew at most."""
    options = ["--quota", "64GiB"]
    with (
        ManagerProcess("source", folder, options) as source,
        ManagerProcess("destination", folder, options) as destination,
    ):
        with destination.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        before = {process: reset_peak(process.pid) for process in (source, destination)}
        queue = f"{destination.url}/large"
        sent = client("send_large", url=source.url, queue=queue, path=str(payload))
        await_arrival(destination, "large", payload.stat().st_size)
        received = client(
            "receive_large", url=destination.url, queue="large", to=str(folder / "out")
        )
        return {
            "sender": sent["growth"],
            "source manager": peak(source.pid) - before[source],
            "destination manager": peak(destination.pid) - before[destination],
            "receiver": received["growth"],
        }
