"""A million queued messages: rates beside those of a thousand, memory, and a start.

Two managers of one kind, one with 1,000 and one with 1,000,000 messages queued, take turns of a
second or two each, and the one that goes first changes: what else the machine does meets both. The
shallow one is the limit of the deep one. A round is long enough that the checkpoints of a million
messages have their share in it. Starts are timed after a clean end and after a kill.
"""

from __future__ import annotations

import time
from pathlib import Path

from benches.processes import client, memory
from benches.results import Result
from dray.testing.processes import ManagerProcess

SHALLOW, DEEP = 1_000, 1_000_000
TURNS = 5
TURN = 20_000
"""Messages of one turn; five turns of each manager are a round."""
BATCH = 100
MESSAGE_BYTES = 1024
RATE_BAR = 0.75
MEMORY_BAR = 160
REOPEN_BAR_S = 10


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    with _manager(folder, "shallow") as shallow, _manager(folder, "deep") as deep:
        _fill(shallow, SHALLOW)
        _fill(deep, SHALLOW)
        before = memory(deep.pid)
        _fill(deep, DEEP - SHALLOW)
        grown = (memory(deep.pid) - before) / (DEEP - SHALLOW)
        measured = [_round(shallow, deep) for _ in range(rounds)]
        shallow.stop()
        starts = {"a clean end": [], "a kill": []}  # type: dict[str, list[float]]
        for _ in range(rounds):
            deep.stop()
            starts["a clean end"].append(_start(deep))
            _turn(deep)
            deep.kill()
            starts["a kill"].append(_start(deep))
    against = f"with {SHALLOW:,} queued"
    return [
        *(
            Result(f"{what} with {DEEP:,} queued", "messages/s", [each[1][at] for each in measured],
                   against, [each[0][at] for each in measured], RATE_BAR)
            for at, what in enumerate(("sent", "received"))
        ),
        Result("memory of a queued message", "bytes", [grown], bar=MEMORY_BAR),
        *(
            Result(f"start with {DEEP:,} queued, after {end}", "s", took, bar=REOPEN_BAR_S)
            for end, took in starts.items()
        ),
    ]  # fmt: skip


def _manager(folder: Path, name: str) -> ManagerProcess:
    options = ["--socket", str(folder / f"{name}.s"), "--quota", "64GiB"]
    return ManagerProcess(name, folder, options)


def _url(process: ManagerProcess) -> str:
    return f"dray+unix://{process.data}.s"


def _fill(process: ManagerProcess, count: int) -> None:
    with process.connect() as manager:
        manager.create_queue("deep", exist_ok=True)
    client("send_small", url=_url(process), queue="deep", count=count, size=MESSAGE_BYTES,
           batch=BATCH, threads=4)  # fmt: skip


def _round(*processes: ManagerProcess) -> list[tuple[float, float]]:
    """Of each manager how many messages a second were sent and received, turn about."""
    took = {process: [0.0, 0.0] for process in processes}
    for turn in range(TURNS):
        for process in processes[:: 1 if turn % 2 else -1]:
            for at, seconds in enumerate(_turn(process)):
                took[process][at] += seconds
    messages = TURNS * TURN
    return [(messages / sent, messages / received) for sent, received in took.values()]


def _turn(process: ManagerProcess) -> tuple[float, float]:
    """Seconds for sending and for receiving what one turn has."""
    sent = client("send_small", url=_url(process), queue="deep", count=TURN, size=MESSAGE_BYTES,
                  batch=BATCH, threads=1)  # fmt: skip
    taken = client("receive_small", url=_url(process), queue="deep", count=TURN, batch=BATCH)
    return sent["seconds"], taken["seconds"]


def _start(process: ManagerProcess) -> float:
    began = time.perf_counter()
    process.start()
    return time.perf_counter() - began
