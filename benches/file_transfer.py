"""One offered file from program to program on loopback, beside one plain TCP stream.

The plain stream is measured in the same round between two Python processes: once from memory to
nowhere, once from a file into a file that is synced, which is what a transfer does besides taking
checksums and a digest. The long line is a proxy that holds every byte back for 50 ms each way;
the plain stream and the transfer both go through it. What a line loses is resent by TCP below both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches.limits import make_payload
from benches.processes import ClientProcess
from benches.results import Result
from dray.cli.demo.processes import ManagerProcess
from dray.testing.bad_line import BadLine

BAR, DELAY_BAR = 0.5, 0.8
DELAY_S = 0.05
WINDOW, FRAGMENT_BYTES = 50, 1 << 20


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each round."""
    payload = make_payload(folder / "payload", size)
    nowhere, filed, direct, relayed, far_plain, far = [], [], [], [], [], []
    with ManagerProcess("manager", folder) as manager:
        with manager.connect() as connected:
            connected.create_queue("reports")
        for turn in range(rounds):
            work = folder / f"round-{turn}"
            work.mkdir()
            nowhere.append(size / _plain(payload, "", 0.0) / 1e6)
            filed.append(size / _plain(payload, str(work / "plain"), 0.0) / 1e6)
            direct.append(size / _transfer(manager.url, payload, work, "direct") / 1e6)
            relayed.append(size / _transfer(manager.url, payload, work, "relayed") / 1e6)
            far_plain.append(size / _plain(payload, str(work / "far-plain"), DELAY_S) / 1e6)
            far.append(size / _transfer(manager.url, payload, work, "far") / 1e6)
            for each in work.iterdir():
                each.unlink()
    to_file, to_nothing = "plain TCP into a synced file", "plain TCP from memory to nowhere"
    return [
        Result("window 50 x 1 MiB, direct", "MB/s", direct, to_file, filed, BAR),
        Result("the same", "MB/s", direct, to_nothing, nowhere),
        Result("through the queue manager", "MB/s", relayed, to_file, filed),
        Result("direct, 50 ms each way", "MB/s", far, f"{to_file}, 50 ms", far_plain, DELAY_BAR),
    ]


def _plain(payload: Path, to: str, delay_s: float) -> float:
    """Seconds of one plain stream."""
    with (
        ClientProcess("plain_send", path=str(payload), memory=not to) as sender,
        _line(sender.told()["port"], delay_s) as port,
        ClientProcess("plain_receive", port=port, to=to) as receiver,
    ):
        seconds = receiver.result()["seconds"]
        sender.result()
    return float(seconds)


def _transfer(url: str, payload: Path, work: Path, way: str) -> float:
    """Seconds from the handshake until the file is there, checked and synced."""
    delay_s = DELAY_S if way == "far" else 0.0
    relayed = way == "relayed"
    with (
        ClientProcess("offer_file", url=url, path=str(payload), relayed=relayed) as offering,
        _line(offering.told()["port"], delay_s) as port,
        ClientProcess("accept_file", url=url, to=str(work / way), port=port) as accepting,
    ):
        seconds = accepting.result()["seconds"]
        offering.result()
    return float(seconds)


@contextmanager
def _line(port: int, delay_s: float) -> Iterator[int]:
    """The port itself, or that of a proxy before it."""
    if not delay_s:
        yield port
        return
    with BadLine(port, delay_s) as line:
        yield line.port
