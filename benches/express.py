"""One 1 KiB message a call, from one process: express ones against recoverable ones.

The recoverable one is answered after a sync, the express one as soon as it is in its queue; what is
between them is what a sender saves who can do without the message after a restart. Both go to one
queue, and are taken out again.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benches.limits import syncs_per_s
from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

MESSAGE_BYTES = 1024
COUNT = 1_000
BAR = 1.5


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    with ManagerProcess("local", folder, ["--socket", str(folder / "s")]) as process:
        with process.connect() as manager:
            manager.create_queue("news", transactional=False)
        measured = [_round(folder) for _ in range(rounds)]
    found = {name: [each[name] for each in measured] for name in measured[0]}
    against, limit = "4 KiB write+fdatasync a second", found["limit"]
    syncs = statistics.median(found["express syncs"])
    return [
        Result("recoverable, one a call", "messages/s", found["recoverable"], against, limit),
        Result("express, one a call", "messages/s", found["express"],
               "recoverable ones a second", found["recoverable"], bar=BAR),
        Result(f"syncs for {COUNT:,} express ones", "syncs", found["express syncs"],
               note=f"{syncs / COUNT:.4f} each"),
    ]  # fmt: skip


def _round(folder: Path) -> dict[str, float]:
    found = {"limit": syncs_per_s(folder)}
    url = f"dray+unix://{folder / 's'}"
    for kind in ("recoverable", "express"):
        done = client(
            "send_singly",
            url=url,
            queue="news",
            count=COUNT,
            size=MESSAGE_BYTES,
            recoverable=kind == "recoverable",
        )
        found[kind] = COUNT / done["seconds"]
        found[f"{kind} syncs"] = done["syncs"]
    return found
