"""One large message to a local queue and back out, against this machine's own writing and copying.

Two states of a store: fresh, whose heap files the disk allocates as they grow, as any fresh file;
and recycled, of which the first GiB was written before, as a file that is written again. A receive
ends with a synced file, and stands beside a copy that is synced; one that does not wait for the
disk (`sync=False`) stands beside a copy that does not either. Everything through the Unix socket,
where files are lent, and once through TCP. The digest is a choice (docs/decisions/0074): what one
core gives of it alone, which no receive can pass, stands beside the same copy.
"""

from __future__ import annotations

from pathlib import Path

from benches.limits import copy_mb_s, digest_mb_s, make_payload, write_again_mb_s, write_fresh_mb_s
from benches.processes import client
from benches.results import Result
from dray.cli.demo.processes import ManagerProcess
from dray.large.digests import DIGESTS

SEND_BAR = 0.7
RECEIVE_BAR = 0.5
WAYS = (("unix", "blake3"), ("unix", "sha256"), ("tcp", "blake3"))
"""Door and digest."""
Rates = dict[str, list[float]]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    found: Rates = {}
    for turn in range(rounds):
        at = folder / f"round-{turn}"
        at.mkdir()
        for name, rate in (_limits(at, payload, size) | _ways(at, payload, size)).items():
            found.setdefault(name, []).append(rate)
    alone = [
        Result(f"{digest} alone, one core", "MB/s", found[digest], "cp, not synced", found["copy"])
        for digest in DIGESTS
    ]
    return [each for door, digest in WAYS for each in _results(found, door, digest)] + alone


def _results(found: Rates, door: str, digest: str) -> list[Result]:
    fresh, again = found["write fresh"], found["write again"]
    sent, received, sent_again, unsynced = (
        found[f"{door} {digest} {what}"]
        for what in ("send fresh", "receive", "send recycled", "receive unsynced")
    )
    way = f"{door}, {digest}"
    bars = (SEND_BAR, RECEIVE_BAR) if door == "unix" else (None, None)
    return [
        Result(f"send, {way}, fresh store", "MB/s", sent, "write+fdatasync, fresh file",
               fresh, bars[0]),
        Result(f"send, {way}, recycled store", "MB/s", sent_again, "write+fdatasync, fresh file",
               fresh, bars[0]),
        Result(f"send, {way}, recycled store", "MB/s", sent_again,
               "write+fdatasync, file written before", again),
        Result(f"receive, {way}, into a synced file", "MB/s", received, "cp, synced",
               found["copy synced"], bars[1]),
        Result(f"receive, {way}, not synced", "MB/s", unsynced, "cp, not synced",
               found["copy"], bars[1]),
    ]  # fmt: skip


def _limits(folder: Path, payload: Path, size: int) -> dict[str, float]:
    return {
        "write fresh": write_fresh_mb_s(folder, size),
        "write again": write_again_mb_s(folder, size),
        "copy synced": copy_mb_s(payload, folder, sync=True),
        "copy": copy_mb_s(payload, folder),
    } | {digest: digest_mb_s(digest, size) for digest in DIGESTS}


def _ways(folder: Path, payload: Path, size: int) -> dict[str, float]:
    rates = {}
    for door, digest in WAYS:
        at = folder / f"{door}-{digest}"
        at.mkdir()
        with ManagerProcess("local", at, ["--socket", str(at / "s"), "--quota", "64GiB"]) as it:
            url = f"dray+unix://{at / 's'}" if door == "unix" else it.url
            seconds = _there_and_back(it, url, payload, digest=digest, out=at / "out")
        for what, took in seconds.items():
            rates[f"{door} {digest} {what}"] = size / took / 1e6
    return rates


def _there_and_back(
    manager: ManagerProcess, url: str, payload: Path, *, digest: str, out: Path
) -> dict[str, float]:
    with manager.connect() as connected:
        for name in ("large", "statusq"):
            connected.create_queue(name)
    sending = {"url": url, "queue": "large", "path": str(payload), "digest": digest}
    sent = client("send_large", **sending)
    received = client("receive_large", url=url, queue="large", to=str(out), sync=True)
    out.unlink()
    sent_again = client("send_large", **sending)
    unsynced = client("receive_large", url=url, queue="large", to=str(out), sync=False)
    out.unlink()
    return {
        "send fresh": sent["seconds"],
        "receive": received["seconds"],
        "send recycled": sent_again["seconds"],
        "receive unsynced": unsynced["seconds"],
    }
