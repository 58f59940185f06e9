"""Small messages on one queue while a large one is in flight on another: by how much they wait.

A client sends 1 KiB messages, one every 20 ms, and receives each where it arrives, first alone and
then beside the large message: at one queue manager while another client streams the large message
in, and out; and between two queue managers over the one connection that carries both, on loopback
and on a line of 100 Mbit/s with 50 ms each way. What a wait is made of on the first three is mostly
this machine's disk: the last row has what a small synced write waits while a file is written.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benches.limits import make_payload
from benches.processes import ClientProcess, client
from benches.results import Result
from dray.testing.processes import ManagerProcess
from tests.lines.line import Line

BAR_MS = 50
EVERY_S = 0.02
SECONDS = 3.0
LINE_BYTES_S, LINE_DELAY_S = 12_500_000, 0.05
LINE_PAYLOAD_BYTES = 120_000_000
"""Ten seconds of the line: in flight for longer than the measurement."""
OPTIONS = ["--quota", "64GiB"]

Pings = list[float]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in flight in each round."""
    payload = make_payload(folder / "payload", size)
    on_the_line = make_payload(folder / "payload-line", min(size, LINE_PAYLOAD_BYTES))
    alone: dict[str, list[Pings]] = {}
    beside: dict[str, list[Pings]] = {}
    for turn in range(rounds):
        work = folder / f"round-{turn}"
        work.mkdir()
        for name, measured in (
            *_local(work / "local", payload),
            ("between two managers", _between(work / "near", payload, line=False)),
            ("the same, 100 Mbit/s and 50 ms", _between(work / "far", on_the_line, line=True)),
            ("a synced 4 KiB write, no Dray", _raw(work, size)),
        ):
            alone.setdefault(name, []).append(measured[0])
            beside.setdefault(name, []).append(measured[1])
    return [
        result
        for name in alone
        for result in (
            Result(f"{name}: p50", "ms", [statistics.median(each) for each in beside[name]],
                   "alone", [statistics.median(each) for each in alone[name]]),
            Result(f"{name}: p99", "ms", [_p99(each) for each in beside[name]],
                   "alone", [_p99(each) for each in alone[name]],
                   note=_verdict(alone[name], beside[name])),
        )
    ]  # fmt: skip


def _p99(pings: Pings) -> float:
    return sorted(pings)[len(pings) * 99 // 100]


def _verdict(alone: list[Pings], beside: list[Pings]) -> str:
    """The delay that the large message added, of the middle round, at the 99th percentile."""
    added = statistics.median(
        _p99(with_it) - _p99(without) for without, with_it in zip(alone, beside, strict=True)
    )
    longest = max(max(each) for each in beside)
    count = sum(len(each) for each in beside)
    verdict = "good" if added <= BAR_MS else "MISSED"
    return f"+{added:.1f} ms, longest of {count} {longest:.0f} ms; bar +{BAR_MS} ms: {verdict}"


def _local(folder: Path, payload: Path) -> list[tuple[str, tuple[Pings, Pings]]]:
    """Beside a large message that a client streams in, and beside one that it streams out."""
    folder.mkdir()
    with ManagerProcess("local", folder, OPTIONS) as here:
        with here.connect() as manager:
            for name in ("large", "statusq", "small"):
                manager.create_queue(name)

        def pings(seconds: float) -> Pings:
            return _pings((here.url, "small"), (here.url, "small"), seconds)

        alone = pings(SECONDS)
        coming = ClientProcess("send_large", url=here.url, queue="large", path=str(payload))
        beside_coming = _while(coming, pings)
        out = str(folder / "out")
        going = ClientProcess("receive_large", url=here.url, queue="large", to=out)
        beside_going = _while(going, pings)
    return [
        ("a large one is sent", (alone, beside_coming)),
        ("a large one is received", (alone, beside_going)),
    ]


def _between(folder: Path, payload: Path, *, line: bool) -> tuple[Pings, Pings]:
    """Beside a large message on its way to the other manager, by the same connection."""
    folder.mkdir()
    with ExitStack() as stack:
        source = stack.enter_context(ManagerProcess("source", folder, OPTIONS))
        there = stack.enter_context(ManagerProcess("there", folder, OPTIONS))
        with there.connect() as manager:
            for name in ("large", "statusq", "small"):
                manager.create_queue(name)
        port = there.port
        if line:
            narrow = Line(there.port, delay_s=LINE_DELAY_S, rate_bytes_s=LINE_BYTES_S)
            port = stack.enter_context(narrow.listen()).port
        far = f"dray://127.0.0.1:{port}"

        def pings(seconds: float) -> Pings:
            return _pings((source.url, f"{far}/small"), (there.url, "small"), seconds)

        alone = pings(SECONDS)
        client("send_large", url=source.url, queue=f"{far}/large", path=str(payload))
        beside = pings(SECONDS)
    return alone, beside


def _while(busy: ClientProcess, pings: Callable[[float], Pings]) -> Pings:
    """Pings for as long as another client is at work, a second at a time."""
    found: Pings = []
    with busy:
        while busy.running:
            found += pings(1.0)
        busy.result()
    return found


def _pings(to: tuple[str, str], back: tuple[str, str], seconds: float) -> Pings:
    """Milliseconds until each message, sent to a queue, has been received from another."""
    measured = client(
        "ping", url=to[0], queue=to[1], url_back=back[0], queue_back=back[1],
        seconds=seconds, every_s=EVERY_S,
    )  # fmt: skip
    whole: Pings = measured["whole"]
    return whole


def _raw(folder: Path, size: int) -> tuple[Pings, Pings]:
    """A 4 KiB write and its fdatasync, alone and while another thread writes and syncs a file."""
    alone = _synced_writes(folder, lambda since: time.perf_counter() - since < SECONDS)
    writer = threading.Thread(target=_write_out, args=(folder / "beside", size))
    writer.start()
    beside = _synced_writes(folder, lambda _: writer.is_alive())
    writer.join()
    return alone, beside


def _synced_writes(folder: Path, go_on: Callable[[float], bool]) -> Pings:
    piece = os.urandom(4096)
    found: Pings = []
    descriptor = os.open(folder / "synced", os.O_RDWR | os.O_CREAT, 0o600)
    began = time.perf_counter()
    while go_on(began) or not found:
        at = time.perf_counter()
        os.pwrite(descriptor, piece, len(found) % 256 * len(piece))
        os.fdatasync(descriptor)
        found.append((time.perf_counter() - at) * 1e3)
        time.sleep(EVERY_S)
    os.close(descriptor)
    return found


def _write_out(path: Path, size: int) -> None:
    """Write a file as a queue manager does: 4 MiB at a time, each synced."""
    piece = os.urandom(4 << 20)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(max(1, size // len(piece))):
        os.write(descriptor, piece)
        os.fdatasync(descriptor)
    os.close(descriptor)
    path.unlink()
