"""Between two queue managers on loopback, durable on both: small messages, 4 MB ones, a long line.

End to end: from the first send until the last message is in the queue at the other manager. The
long line is a proxy in this process that holds every byte back for 50 ms each way. Beside it stands
what a plain TCP stream reaches through the same proxy, and what the window allows: its bytes once
in the time that an order ack takes, which is the line there and back, and a sync.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benches.limits import make_payload, write_fresh_mb_s
from benches.processes import ClientProcess, client
from benches.results import Result
from dray.errors import DrayError
from dray.model.limits import LINK_WINDOW_BYTES
from dray.testing.processes import ManagerProcess
from tests.lines.line import Line

SMALL_BYTES, SMALL_COUNT, BATCH = 1024, 50_000, 100
BIG_BYTES, BIG_BATCH = 4_000_000, 10
SMALL_BAR_PER_S = 20_000
BIG_BAR, DELAY_BAR = 0.35, 0.8
DELAY_S = 0.05
LOOPBACK = "127.0.0.1"
ARRIVAL_WITHIN_S = 300.0


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes of 4 MB messages in each round."""
    count = max(BIG_BATCH, size // BIG_BYTES // BIG_BATCH * BIG_BATCH)
    limit: list[float] = []
    small, near, proxied, far, plain = ([*limit] for _ in range(5))
    payload = make_payload(folder / "payload", count * BIG_BYTES)
    for turn in range(rounds):
        work = folder / f"round-{turn}"
        work.mkdir()
        limit.append(write_fresh_mb_s(work, count * BIG_BYTES))
        small.append(SMALL_COUNT / _small(work / "small"))
        for rates, delay_s in ((near, None), (proxied, 0.0), (far, DELAY_S)):
            seconds = _big(work / f"big-{delay_s}", count, delay_s)
            rates.append(count * BIG_BYTES / seconds / 1e6)
        plain.append(count * BIG_BYTES / _plain(payload) / 1e6)
    against = "write+fdatasync, fresh file"
    return [
        Result("1 KiB, 100 a transaction, arrived", "messages/s", small,
               note=_verdict(statistics.median(small) / SMALL_BAR_PER_S, 1,
                             f"{SMALL_BAR_PER_S:,}/s")),
        Result("4 MB messages, arrived", "MB/s", near, against, limit,
               note=_verdict(statistics.median(near) / statistics.median(limit), BIG_BAR,
                             f"{BIG_BAR} of the raw rate")),
        Result("the same through the proxy", "MB/s", proxied, against, limit),
        Result("the same, 50 ms each way", "MB/s", far, "without delay", proxied,
               note=_verdict(statistics.median(far) / statistics.median(proxied), DELAY_BAR,
                             f"{DELAY_BAR} of the rate without delay")),
        Result("the same, beside plain TCP", "MB/s", far, "plain TCP, 50 ms each way", plain,
               note=f"the window, {LINK_WINDOW_BYTES >> 20} MiB once in 100 ms, allows"
                    f" {LINK_WINDOW_BYTES / 2 / DELAY_S / 1e6:.0f} MB/s less the time of a sync"),
    ]  # fmt: skip


def _verdict(reached: float, bar: float, text: str) -> str:
    return f"bar {text}: {'good' if reached >= bar else 'MISSED'}"


def _small(folder: Path) -> float:
    arguments = {"count": SMALL_COUNT, "size": SMALL_BYTES, "batch": BATCH, "threads": 4}
    return timed_arrival(folder, None, "send_small", arguments)


def _big(folder: Path, count: int, delay_s: float | None) -> float:
    arguments = {"sizes": [BIG_BYTES], "count": count, "batch": BIG_BATCH}
    return timed_arrival(folder, delay_s, "send_big", arguments)


def _plain(payload: Path) -> float:
    """Seconds of a plain TCP stream through the long line, from memory to nowhere."""
    with (
        ClientProcess("plain_send", path=str(payload), memory=True, host=LOOPBACK) as sender,
        Line(sender.told()["port"], delay_s=DELAY_S).listen() as line,
        ClientProcess("plain_receive", port=line.port, to="", host=LOOPBACK) as receiver,
    ):
        seconds = receiver.result()["seconds"]
        sender.result()
    return float(seconds)


def timed_arrival(
    folder: Path, delay_s: float | None, sender: str, arguments: dict[str, Any]
) -> float:
    """Seconds from the client's first send, as it says, until all is in the other queue."""
    folder.mkdir()
    options = ["--quota", "64GiB"]
    with ExitStack() as stack:
        source = stack.enter_context(ManagerProcess("source", folder, options))
        there = stack.enter_context(ManagerProcess("there", folder, options))
        port = there.port
        if delay_s is not None:
            port = stack.enter_context(Line(there.port, delay_s=delay_s).listen()).port
        manager = stack.enter_context(there.connect())
        queue = manager.create_queue("orders")
        sent = client(sender, url=source.url, queue=f"dray://127.0.0.1:{port}/orders", **arguments)
        began = time.perf_counter()
        deadline = time.monotonic() + ARRIVAL_WITHIN_S
        # Clients send one message more, before their time begins.
        while queue.info().message_count < arguments["count"] + 1:
            if time.monotonic() > deadline:
                raise DrayError(f"not everything arrived within {ARRIVAL_WITHIN_S:.0f} s")
            time.sleep(0.005)
        return float(sent["seconds"]) + time.perf_counter() - began
