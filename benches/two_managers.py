"""One large file through two managers in a row, from the first byte until the consumer has it.

Dray from queue manager to queue manager, RabbitMQ by its shovel, and Artemis by its bridge, on
loopback, in the same rounds, with the machine's own writing beside them. The consumer begins
before the sender, and its file is synced. The brokers get the file as persistent messages of 4 MB,
each confirmed before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from benches.limits import make_payload, write_fresh_mb_s
from benches.peer_servers import artemis, artemis_program, free_port, rabbitmq, those_here
from benches.processes import ClientProcess, client
from benches.results import Result
from dray.errors import DrayError
from dray.testing.processes import ManagerProcess

DRAY, ALONE = "Dray", "write+fdatasync, fresh file"
BARS = {"RabbitMQ": 2.5, "Artemis": 2.5, ALONE: 0.5}


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    found: dict[str, list[float]] = {}
    for turn in range(rounds):
        home = folder / f"round-{turn}"
        home.mkdir()
        for name, rate in _round(home, payload):
            found.setdefault(name, []).append(rate)
    what = "one file through two managers"
    return [
        Result(what, "MB/s", found[DRAY], peer, found[peer], bar)
        for peer, bar in BARS.items()
        if len(found.get(peer, ())) == rounds
    ]


def _round(home: Path, payload: Path) -> Iterator[tuple[str, float]]:
    yield ALONE, write_fresh_mb_s(home, payload.stat().st_size)
    yield DRAY, _through_dray(home / "dray", payload)
    peers = [
        ("RabbitMQ", "rabbitmq-server", "pika", lambda: _through_rabbitmq(home, payload)),
        ("Artemis", artemis_program(), "", lambda: _through_artemis(home, payload)),
    ]
    yield from those_here(peers)


def _through_dray(folder: Path, payload: Path) -> float:
    folder.mkdir()
    options = ["--quota", "64GiB"]
    with (
        ManagerProcess("source", folder, options) as source,
        ManagerProcess("destination", folder, options) as destination,
    ):
        with destination.connect() as manager:
            for name in ("large", "statusq"):
                manager.create_queue(name)
        out = folder / "out"
        taken = {"url": destination.url, "queue": "large", "to": str(out)}
        sent = {"url": source.url, "queue": f"{destination.url}/large", "path": str(payload)}
        return _rate(payload, out, ("receive_large", taken), ("send_large", sent))


def _through_rabbitmq(home: Path, payload: Path) -> float:
    out, size = home / "rabbitmq-out", payload.stat().st_size
    with ExitStack() as stack:
        last = stack.enter_context(rabbitmq(home / "rabbitmq-2"))
        first = stack.enter_context(rabbitmq(home / "rabbitmq-1", shovel_to=last))
        taken = {"port": last, "to": str(out), "size": size}
        sent = {"port": first, "path": str(payload)}
        return _rate(payload, out, ("rabbitmq_receive", taken), ("rabbitmq_send", sent))


def _through_artemis(home: Path, payload: Path) -> float:
    out, size = home / "artemis-out", payload.stat().st_size
    last = free_port()
    with ExitStack() as stack:
        stack.enter_context(artemis(home / "artemis-2", last))
        first = stack.enter_context(artemis(home / "artemis-1", bridge_to=last))
        taken = {"port": last, "to": str(out), "size": size}
        sent = {"port": int(first), "path": str(payload)}
        return _rate(payload, out, ("artemis_receive", taken), ("artemis_send", sent))


def _rate(
    payload: Path,
    out: Path,
    receive: tuple[str, Mapping[str, object]],
    send: tuple[str, Mapping[str, object]],
) -> float:
    """MB/s from the sender's first byte until the receiver's file is synced."""
    with ClientProcess(receive[0], **receive[1]) as receiver:
        sent = client(send[0], **send[1])
        ended = receiver.result()["ended"]
    size = payload.stat().st_size
    if out.stat().st_size != size:
        raise DrayError(f"{out.stat().st_size} bytes came back of {size}")
    out.unlink()
    return float(size / (ended - sent["ended"] + sent["seconds"]) / 1e6)
