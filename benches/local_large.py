"""One large message to a local queue and back out, against this machine's own writing and copying.

Two states of a store: fresh, whose heap files the disk allocates as they grow, as any fresh file;
and recycled, whose heap files were written before, as a file that is written again.
"""

from __future__ import annotations

from pathlib import Path

from benches.limits import copy_mb_s, make_payload, write_again_mb_s, write_fresh_mb_s
from benches.processes import client
from benches.results import Result
from dray.cli.demo.processes import ManagerProcess

SEND_BAR = 0.35
ROUND = ("write fresh", "write again", "copy", "send fresh", "receive", "send recycled")


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    found: dict[str, list[float]] = {name: [] for name in ROUND}
    for turn in range(rounds):
        for name, rate in _round(folder / f"round-{turn}", payload, size).items():
            found[name].append(rate)
    fresh, again, copy = found["write fresh"], found["write again"], found["copy"]
    return [
        Result("send, fresh store", "MB/s", found["send fresh"], "write+fdatasync, fresh file",
               fresh, SEND_BAR),
        Result("send, recycled store", "MB/s", found["send recycled"],
               "write+fdatasync, file written before", again),
        Result("send, recycled store", "MB/s", found["send recycled"],
               "write+fdatasync, fresh file", fresh, SEND_BAR),
        Result("receive into a synced file", "MB/s", found["receive"],
               "write+fdatasync, fresh file", fresh),
        Result("receive into a synced file", "MB/s", found["receive"], "cp, without a sync", copy),
    ]  # fmt: skip


def _round(folder: Path, payload: Path, size: int) -> dict[str, float]:
    folder.mkdir()
    rates = {
        "write fresh": write_fresh_mb_s(folder, size),
        "write again": write_again_mb_s(folder, size),
        "copy": copy_mb_s(payload, folder),
    }
    out = folder / "out"
    with ManagerProcess("local", folder, ["--socket", str(folder / "s"), "--quota", "64GiB"]) as it:
        url = f"dray+unix://{folder / 's'}"
        with it.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        sent = client("send_large", url=url, queue="large", path=str(payload))
        received = client("receive_large", url=url, queue="large", to=str(out))
        out.unlink()
        sent_again = client("send_large", url=url, queue="large", path=str(payload))
    for name, measured in (
        ("send fresh", sent), ("receive", received), ("send recycled", sent_again)
    ):  # fmt: skip
        rates[name] = size / measured["seconds"] / 1e6
    return rates
