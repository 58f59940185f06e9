"""One large file through Dray, NATS JetStream's Object Store and RabbitMQ, in the same rounds.

All on loopback, one client at a time, each in Python with its project's own client: from the file
to the server's word that it has it, and back into a synced file. They do not promise the same:

    Dray                      on disk (fdatasync) before the answer; SHA-256 of the whole checked
    NATS, as it comes         answers from the page cache, syncs within two minutes
    NATS, sync always         on disk before each answer; only servers from 2.10 on know it
    RabbitMQ                  a persistent message is confirmed once it was written and synced

`make peers` installs what is compared with; what is not there is left out with a line that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from benches.limits import make_payload
from benches.peer_servers import SYNC_ALWAYS, missing, nats, rabbitmq
from benches.processes import client
from benches.results import Result
from dray.cli.demo.processes import ManagerProcess
from dray.errors import DrayError

OBJECT_STORE_BAR, RABBITMQ_BAR = 5, 3

Rates = tuple[float, float]
"""In and out, MB/s."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes each way in each round."""
    payload = make_payload(folder / "payload", size)
    found: dict[str, list[Rates]] = {}
    for turn in range(rounds):
        for name, rates in _round(folder / f"round-{turn}", payload):
            found.setdefault(name, []).append(rates)
    return list(_results(found))


def _results(found: dict[str, list[Rates]]) -> Iterator[Result]:
    doors = [name for name in found if name.startswith("Dray")]
    for door in doors:
        for way, what in enumerate(("in", "out")):
            ours = [rates[way] for rates in found[door]]
            for peer, bar in (
                ("NATS, as it comes", OBJECT_STORE_BAR),
                ("NATS, sync always", OBJECT_STORE_BAR),
                ("RabbitMQ", RABBITMQ_BAR),
            ):
                if peer in found:
                    theirs = [rates[way] for rates in found[peer]]
                    yield Result(f"{door}: {what}", "MB/s", ours, peer, theirs, bar)
            if len(found) == len(doors):
                yield Result(f"{door}: {what}", "MB/s", ours)


def _round(folder: Path, payload: Path) -> Iterator[tuple[str, Rates]]:
    folder.mkdir()
    yield "Dray, TCP", _dray(folder / "tcp", payload, unix=False)
    yield "Dray, Unix socket", _dray(folder / "unix", payload, unix=True)
    peers: list[tuple[str, str, str, Callable[[], Rates]]] = [
        ("NATS, as it comes", "nats-server", "nats",
         lambda: _nats(nats(folder / "nats"), folder, payload)),
        ("NATS, sync always", "nats-server", "nats",
         lambda: _nats(nats(folder / "nats-always", SYNC_ALWAYS), folder, payload)),
        ("RabbitMQ", "rabbitmq-server", "pika",
         lambda: _rabbitmq(folder / "rabbitmq", folder, payload)),
    ]  # fmt: skip
    for name, program, module, measure in peers:
        if lacking := missing(program, module):
            print(f"{name} is left out: {lacking}")
            continue
        try:
            yield name, measure()
        except DrayError as error:
            print(f"{name} is left out: {error}")


def _dray(folder: Path, payload: Path, *, unix: bool) -> Rates:
    folder.mkdir()
    out = folder / "out"
    options = ["--socket", str(folder / "s"), "--quota", "64GiB"]
    with ManagerProcess("manager", folder, options) as server:
        url = f"dray+unix://{folder / 's'}" if unix else server.url
        with server.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        sent = client("send_large", url=url, queue="large", path=str(payload))
        received = client("receive_large", url=url, queue="large", to=str(out))
    return _rates(payload, out, sent["seconds"], received["seconds"])


def _nats(server: AbstractContextManager[str], folder: Path, payload: Path) -> Rates:
    out = folder / "nats-out"
    with server as url:
        put = client("nats_put", url=url, path=str(payload))
        got = client("nats_get", url=url, to=str(out))
    return _rates(payload, out, put["seconds"], got["seconds"])


def _rabbitmq(data: Path, folder: Path, payload: Path) -> Rates:
    out, size = folder / "rabbitmq-out", payload.stat().st_size
    with rabbitmq(data) as port:
        sent = client("rabbitmq_send", port=port, path=str(payload))
        received = client("rabbitmq_receive", port=port, to=str(out), size=size)
    return _rates(payload, out, sent["seconds"], received["seconds"])


def _rates(payload: Path, out: Path, in_s: float, out_s: float) -> Rates:
    """MB/s each way, if what came out is as long as what went in."""
    size = payload.stat().st_size
    if out.stat().st_size != size:
        raise DrayError(f"{out.stat().st_size} bytes came back of {size}")
    out.unlink()
    return size / in_s / 1e6, size / out_s / 1e6
