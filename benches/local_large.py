"""One large message to a local queue and back out, against this machine's own writing and copying.

Two states of a store: fresh, whose heap files the disk allocates as they grow, as any fresh file;
and recycled, of which the first GiB was written before, as a file that is written again. A receive
ends with a synced file, and stands beside a copy that is synced; one that does not wait for the
disk (`sync=False`) stands beside a copy that does not either. Everything through the Unix socket,
where files are lent, and once through TCP. Each limit is taken right before what it is the limit
of: what lies in the page cache by then, and what of it has to go for the next GiB, is half of the
rate of both. The digest is a choice (docs/decisions/0179): what one core gives of it alone, which
no receive can pass, stands beside the same copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from benches.limits import copy_mb_s, digest_mb_s, make_payload, write_again_mb_s, write_fresh_mb_s
from benches.processes import client
from benches.results import Result
from dray.large.digests import DIGEST_KIND_DEFAULT, SHA256
from dray.testing.processes import ManagerProcess

SEND_BAR = 0.7
RECEIVE_BAR = 0.5
DEFAULT = DIGEST_KIND_DEFAULT
WAYS = (("unix", DEFAULT), ("unix", SHA256), ("tcp", DEFAULT))
"""Door and digest; the default is measured as a send gets it that names none."""
FRESH = "write+fdatasync, fresh file"
FRESH_AGAIN = "write+fdatasync, another fresh file"
WRITTEN_BEFORE = "write+fdatasync, file written before"
COPY_SYNCED = "cp, synced"
COPY = "cp, not synced"
Rates = dict[str, list[float]]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    found: Rates = {}
    for turn in range(rounds):
        for door, digest in WAYS:
            at = folder / f"{door}-{digest}-{turn}"
            at.mkdir()
            for what, rate in _way(at, payload, door, digest).items():
                found.setdefault(f"{door} {digest} {what}", []).append(rate)
            shutil.rmtree(at)
    return [each for door, digest in WAYS for each in _results(found, door, digest)]


def _results(found: Rates, door: str, digest: str) -> list[Result]:
    way = f"{door}, {digest}"
    send_bar, receive_bar = (SEND_BAR, RECEIVE_BAR) if door == "unix" else (None, None)

    def beside(what: str, step: str, limit: str, bar: float | None = None) -> Result:
        rates, limits = found[f"{door} {digest} {step}"], found[f"{door} {digest} {limit}"]
        return Result(what, "MB/s", rates, limit, limits, bar)

    return [
        beside(f"send, {way}, fresh store", "send fresh", FRESH, send_bar),
        beside(f"send, {way}, recycled store", "send recycled", FRESH_AGAIN, send_bar),
        beside(f"send, {way}, recycled store", "send recycled", WRITTEN_BEFORE),
        beside(f"receive, {way}, into a synced file", "receive", COPY_SYNCED, receive_bar),
        beside(f"receive, {way}, not synced", "receive unsynced", COPY, receive_bar),
        beside(f"{digest} alone, one core", "digest", COPY),
    ]


def _way(folder: Path, payload: Path, door: str, digest: str) -> dict[str, float]:
    """MB/s of each step of one way, and of the limit before it."""
    size, out = payload.stat().st_size, folder / "out"
    socket = folder / "s"
    named = None if digest == DEFAULT else digest
    with ManagerProcess("local", folder, ["--socket", str(socket), "--quota", "64GiB"]) as manager:
        with manager.connect() as connected:
            connected.create_queue("large")
        at = {"url": f"dray+unix://{socket}" if door == "unix" else manager.url, "queue": "large"}

        def sent() -> float:
            return _rate(size, "send_large", **at, path=str(payload), digest=named)

        def received(*, sync: bool) -> float:
            rate = _rate(size, "receive_large", **at, to=str(out), sync=sync)
            out.unlink()
            return rate

        steps: dict[str, Callable[[], float]] = {
            FRESH: lambda: write_fresh_mb_s(folder, size),
            "send fresh": sent,
            COPY_SYNCED: lambda: copy_mb_s(payload, folder, sync=True),
            "receive": lambda: received(sync=True),
            WRITTEN_BEFORE: lambda: write_again_mb_s(folder, size),
            FRESH_AGAIN: lambda: write_fresh_mb_s(folder, size),
            "send recycled": sent,
            "digest": lambda: digest_mb_s(digest, size),
            COPY: lambda: copy_mb_s(payload, folder),
            "receive unsynced": lambda: received(sync=False),
        }
        rates = {}
        for what, step in steps.items():
            os.sync()
            rates[what] = step()
    return rates


def _rate(size: int, name: str, **arguments: object) -> float:
    seconds: float = client(name, **arguments)["seconds"]
    return size / seconds / 1e6
