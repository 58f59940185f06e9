"""One offered file from program to program, beside one plain TCP stream.

The plain stream is measured in the same round between two Python processes: once from memory to
nowhere, once from a file into a file that is synced, which is what a transfer does besides taking
checksums and a digest. The long line is a proxy that holds every byte back for 50 ms each way; the
plain stream and the transfer both go through it. On the bad line packets are lost, too: the two
programs run in network namespaces with a cable between them, and meet the kernel's own TCP. What
they say through their queue manager, a Unix socket, is not delayed. Where namespaces cannot be
made that row is left out, and the reason said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches.limits import make_payload
from benches.processes import ClientProcess
from benches.results import Result
from dray.errors import DrayError
from dray.testing.processes import ManagerProcess
from tests.lines.cable import Faults
from tests.lines.line import Line
from tests.lines.namespaces import Place, cabled, why_not

BAR, DELAY_BAR = 0.5, 0.8
DELAY_S = 0.05
BAD = Faults(delay_s=DELAY_S, loss=0.001)
BAD_BYTES_MAX = 128 << 20
"""The kernel's TCP goes some 10 to 40 MB/s over such a line."""
WINDOW, FRAGMENT_BYTES = 50, 1 << 20
LOOPBACK = "127.0.0.1"
TO_FILE, TO_NOTHING = "plain TCP into a synced file", "plain TCP from memory to nowhere"


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
    return [
        Result("window 50 x 1 MiB, direct", "MB/s", direct, TO_FILE, filed, BAR),
        Result("the same", "MB/s", direct, TO_NOTHING, nowhere),
        Result("through the queue manager", "MB/s", relayed, TO_FILE, filed, BAR),
        Result("direct, 50 ms each way", "MB/s", far, f"{TO_FILE}, 50 ms", far_plain, DELAY_BAR),
        *_over_a_bad_line(folder, min(size, BAD_BYTES_MAX), rounds),
    ]


def _over_a_bad_line(folder: Path, size: int, rounds: int) -> list[Result]:
    """The row of the bad line, if there can be one."""
    if reason := why_not():
        print(f"  no row with lost packets: {reason}")
        return []
    payload = make_payload(folder / "less", size)
    socket = folder / "manager.sock"
    url = f"dray+unix://{socket}"
    plain, transfer = [], []
    with (
        ManagerProcess("bad", folder, ["--socket", str(socket)]) as manager,
        cabled(BAD, seed=1) as (near, far, _),
    ):
        with manager.connect() as connected:
            connected.create_queue("reports")
        for turn in range(rounds):
            work = folder / f"bad-{turn}"
            work.mkdir()
            plain.append(size / _plain(payload, str(work / "plain"), 0.0, (near, far)) / 1e6)
            transfer.append(size / _transfer(url, payload, work, "bad", places=(near, far)) / 1e6)
            for each in work.iterdir():
                each.unlink()
    what, beside = "direct, 50 ms each way, 0.1 % lost", f"{TO_FILE}, same cable"
    return [Result(what, "MB/s", transfer, beside, plain, DELAY_BAR, "kernel TCP over TUN")]


def _plain(
    payload: Path, to: str, delay_s: float, places: tuple[Place, Place] | None = None
) -> float:
    """Seconds of one plain stream."""
    host, near, far = _there(places)
    asked = {"path": str(payload), "memory": not to, "host": host}
    with (
        ClientProcess("plain_send", near, **asked) as sender,
        _line(sender.told()["port"], delay_s) as port,
        ClientProcess("plain_receive", far, port=port, to=to, host=host) as receiver,
    ):
        seconds = receiver.result()["seconds"]
        sender.result()
    return float(seconds)


def _transfer(
    url: str, payload: Path, work: Path, way: str, *, places: tuple[Place, Place] | None = None
) -> float:
    """Seconds from the handshake until the file is there, checked and synced."""
    host, near, far = _there(places)
    delay_s = DELAY_S if way == "far" else 0.0
    asked = {"url": url, "path": str(payload), "relayed": way == "relayed", "host": host}
    with (
        ClientProcess("offer_file", near, **asked) as offering,
        _line(offering.told()["port"], delay_s) as port,
        ClientProcess("accept_file", far, url=url, to=str(work / way), port=port) as accepting,
    ):
        accepted = accepting.result()
        offering.result()
    if bool(accepted["connections"]) is (way == "relayed"):
        raise DrayError(f"the transfer {way!r} did not go the way that is measured")
    return float(accepted["seconds"])


def _there(places: tuple[Place, Place] | None) -> tuple[str, Place | None, Place | None]:
    """Where the sender listens, and where both programs run."""
    return (LOOPBACK, None, None) if places is None else (places[0].address, *places)


@contextmanager
def _line(port: int, delay_s: float) -> Iterator[int]:
    """The port itself, or that of a proxy before it."""
    if not delay_s:
        yield port
        return
    with Line(port, delay_s=delay_s).listen() as line:
        yield line.port
