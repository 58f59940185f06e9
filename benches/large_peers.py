"""One large file through Dray, NATS JetStream and RabbitMQ, in the same rounds.

All on loopback, one client at a time, each in Python with its project's own client: from the file
to the server's word that it has it, back into a synced file, and back into one that is not synced.
They do not promise the same:

    Dray                      on disk (fdatasync) before the answer; the digest of the whole
                              checked; a message leaves its queue when its file is there
    NATS, as it comes         answers from the page cache, syncs within two minutes
    NATS, sync always         on disk before each answer; only servers from 2.10 on know it
    NATS, objects             its Object Store, which checks a SHA-256, on disk before each answer
    RabbitMQ                  a persistent message is confirmed once it was written and synced
                              (two fsyncs for each of 4 MB were seen); nothing is checked; each
                              leaves its queue before the file that it is in was synced

The machine alone stands beside each of them too, by what it writes and copies itself.

`make peers` installs what is compared with; what is not there is left out with a line that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from benches.limits import copy_mb_s, make_payload, write_fresh_mb_s
from benches.peer_servers import SYNC_ALWAYS, nats, nats_program, rabbitmq, those_here
from benches.processes import client
from benches.results import Result
from dray.errors import DrayError
from dray.testing.processes import ManagerProcess

ALONE = "the machine alone"
DOORS = {
    "Dray, TCP": (False, None),
    "Dray, Unix": (True, None),
    "Dray, Unix, SHA-256": (True, "sha256"),
}
"""Whether by the Unix socket, and with which digest; None is the default."""
PEERS = ("NATS, as it comes", "NATS, sync always", "NATS, objects", "RabbitMQ")
BARS: dict[tuple[str, str, str], float] = {
    ("in", "Dray, Unix", ALONE): 0.9,
    ("out, synced", "Dray, Unix", ALONE): 0.9,
    ("out, synced", "Dray, TCP", "NATS, sync always"): 1.2,
    ("out, not synced", "Dray, TCP", "NATS, sync always"): 1.2,
}
"""The least ratio that is wanted."""


class Rates(NamedTuple):
    """MB/s: in, and out into a file."""

    stored: float
    synced: float
    unsynced: float


WAYS = ("in", "out, synced", "out, not synced")
"""What the fields of `Rates` are called."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes each way in each round."""
    payload = make_payload(folder / "payload", size)
    found: dict[str, list[Rates]] = {}
    for turn in range(rounds):
        for name, rates in _round(folder / f"round-{turn}", payload):
            found.setdefault(name, []).append(rates)
    return list(_results(found))


def _results(found: dict[str, list[Rates]]) -> Iterator[Result]:
    for way, what in enumerate(WAYS):
        for door in (*DOORS, ALONE):
            ours = [rates[way] for rates in found[door]]
            for peer in (*PEERS, ALONE):
                if peer in found and peer != door:
                    theirs = [rates[way] for rates in found[peer]]
                    bar = BARS.get((what, door, peer))
                    yield Result(f"{what}: {door}", "MB/s", ours, peer, theirs, bar)


def _round(folder: Path, payload: Path) -> Iterator[tuple[str, Rates]]:
    folder.mkdir()
    yield ALONE, _alone(folder, payload)
    for number, (door, (unix, digest)) in enumerate(DOORS.items()):
        yield door, _dray(folder / f"dray-{number}", payload, unix=unix, digest=digest)
    peers: list[tuple[str, str, str, Callable[[], Rates]]] = [
        ("NATS, as it comes", nats_program(), "nats",
         lambda: _nats(nats(folder / "nats"), folder, payload)),
        ("NATS, sync always", nats_program(), "nats",
         lambda: _nats(nats(folder / "nats-always", SYNC_ALWAYS), folder, payload)),
        ("NATS, objects", nats_program(), "nats",
         lambda: _nats_objects(nats(folder / "nats-objects", SYNC_ALWAYS), folder, payload)),
        ("RabbitMQ", "rabbitmq-server", "pika",
         lambda: _rabbitmq(folder / "rabbitmq", folder, payload)),
    ]  # fmt: skip
    yield from those_here(peers)


def _alone(folder: Path, payload: Path) -> Rates:
    stored = write_fresh_mb_s(folder, payload.stat().st_size)
    return Rates(stored, copy_mb_s(payload, folder, sync=True), copy_mb_s(payload, folder))


def _dray(folder: Path, payload: Path, *, unix: bool, digest: str | None) -> Rates:
    folder.mkdir()
    out = folder / "out"
    options = ["--socket", str(folder / "s"), "--quota", "64GiB"]
    with ManagerProcess("manager", folder, options) as server:
        url = f"dray+unix://{folder / 's'}" if unix else server.url
        with server.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        took = []
        for sync in (True, False):
            sent = client("send_large", url=url, queue="large", path=str(payload), digest=digest)
            got = client("receive_large", url=url, queue="large", to=str(out), sync=sync)
            took.append((sent["seconds"], got["seconds"]))
            _check_size(payload, out)
    (in_s, synced_s), (_, unsynced_s) = took
    return _rates(payload, in_s, synced_s, unsynced_s)


def _nats(server: AbstractContextManager[str], folder: Path, payload: Path) -> Rates:
    out, size = folder / "nats-out", payload.stat().st_size
    with server as url:
        sent = client("nats_send", url=url, path=str(payload))
        got = client("nats_receive", url=url, to=str(out), size=size)
    _check_size(payload, out)
    return _rates(payload, sent["seconds"], got["seconds"], got["unsynced"])


def _nats_objects(server: AbstractContextManager[str], folder: Path, payload: Path) -> Rates:
    out = folder / "nats-out"
    with server as url:
        put = client("nats_put", url=url, path=str(payload))
        got = client("nats_get", url=url, to=str(out))
    _check_size(payload, out)
    return _rates(payload, put["seconds"], got["seconds"], got["unsynced"])


def _rabbitmq(data: Path, folder: Path, payload: Path) -> Rates:
    out, size = folder / "rabbitmq-out", payload.stat().st_size
    with rabbitmq(data) as port:
        sent = client("rabbitmq_send", port=port, path=str(payload))
        got = client("rabbitmq_receive", port=port, to=str(out), size=size)
    _check_size(payload, out)
    return _rates(payload, sent["seconds"], got["seconds"], got["unsynced"])


def _check_size(payload: Path, out: Path) -> None:
    """Remove what came out; raises `DrayError` if it is not as long as what went in."""
    size, came = payload.stat().st_size, out.stat().st_size
    out.unlink()
    if came != size:
        raise DrayError(f"{came} bytes came back of {size}")


def _rates(payload: Path, *took_s: float) -> Rates:
    size = payload.stat().st_size
    return Rates(*(size / seconds / 1e6 for seconds in took_s))
