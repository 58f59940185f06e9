"""Large messages up and down over HTTP, beside the same through Dray's own client, on TCP.

One queue manager serves both on loopback. By turns a file is sent and received over `/v1` by a
client that does nothing but copy, and by `dray send` and `dray receive`. The memory of the HTTP
process is looked at before and after: its highest may grow by 64 MiB.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import dray
from benches.limits import make_payload
from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

RATIO_MIN: Final = 0.5
GROWTH_MIB_MAX: Final = 64
QUEUE: Final = "large"
_HTTP = re.compile(r"HTTP at http://127\.0\.0\.1:(\d+)")
_PIECE_BYTES = 1 << 20
_HIGHEST = re.compile(r"VmHWM:\s+(\d+) kB")
_MIB: Final = 1 << 20


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in each large message."""
    payload = make_payload(folder / "payload", size)
    out = folder / "out"
    quota = str(4 * size + (1 << 30))
    rates: dict[str, list[float]] = {}
    with ManagerProcess("http", folder, ["--http", "127.0.0.1:0", "--quota", quota]) as process:
        said = _HTTP.search(process.log.read_text())
        assert said is not None, "the queue manager says where it serves HTTP"
        with dray.connect(f"dray+unix://{process.data}/dray.sock") as manager:
            manager.create_queue(QUEUE)
            caller = HttpClient(int(said[1]), manager.create_token("bench"))
        highest = highest_memory(http_process(process.pid))
        for _ in range(rounds):
            large = {"url": process.url, "queue": QUEUE}
            _note(rates, "HTTP sent", size, caller.send(payload))
            _note(rates, "HTTP received", size, caller.receive(out))
            assert out.stat().st_size == size
            out.unlink()
            sent = client("send_large", **large, path=str(payload))
            _note(rates, "Dray sent", size, sent["seconds"])
            received = client("receive_large", **large, to=str(out))
            _note(rates, "Dray received", size, received["seconds"])
            out.unlink()
        growth = (highest_memory(http_process(process.pid)) - highest) / _MIB
    return [
        *(
            Result(f"large {way}, HTTP", "MB/s", rates[f"HTTP {way}"], "Dray", rates[f"Dray {way}"],
                   RATIO_MIN)
            for way in ("sent", "received")
        ),
        Result("memory by which the HTTP process grew", "MiB", [growth], bar=GROWTH_MIB_MAX),
    ]  # fmt: skip


def _note(rates: dict[str, list[float]], what: str, size: int, seconds: float) -> None:
    rates.setdefault(what, []).append(size / 1e6 / seconds)


class HttpClient:
    """Sends and receives over one connection each, and only copies."""

    def __init__(self, port: int, token: str) -> None:
        """Connect to nothing yet."""
        self._port = port
        self._token = token

    def send(self, path: Path) -> float:
        """Send a file as one message; the seconds until it was answered."""
        begun = time.monotonic()
        with self._connected() as wire:
            size = path.stat().st_size
            self._ask(wire, "POST", f"/v1/queues/{QUEUE}/messages", f"Content-Length: {size}")
            assert send_body(wire, path).startswith(b"HTTP/1.1 201")
        return time.monotonic() - begun

    def receive(self, path: Path) -> float:
        """Receive the first message into a file, and settle it; the seconds that took."""
        begun = time.monotonic()
        lease = self._short("POST", f"/v1/queues/{QUEUE}/receive?wait=60")["location"]
        with self._connected() as wire:
            self._ask(wire, "GET", lease)
            receive_body(wire, path)
        self._short("DELETE", lease)
        return time.monotonic() - begun

    def _short(self, method: str, path: str) -> dict[str, str]:
        with self._connected() as wire:
            self._ask(wire, method, path, "Content-Length: 0")
            head, _ = _head_of(wire)
        assert head.split()[1] in (b"201", b"204"), head
        return _fields(head)

    def _connected(self) -> closing[socket.socket]:
        return closing(socket.create_connection(("127.0.0.1", self._port)))

    def _ask(self, wire: socket.socket, method: str, path: str, *lines: str) -> None:
        heads = (f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self._token}")
        wire.sendall("\r\n".join((*heads, *lines, "", "")).encode())


def send_body(wire: socket.socket, path: Path) -> bytes:
    """Send a file behind the head of a request; the head of the answer."""
    size, at = path.stat().st_size, 0
    with path.open("rb") as file:
        while at < size:
            at += os.sendfile(wire.fileno(), file.fileno(), at, size - at)
    return _head_of(wire)[0]


def receive_body(wire: socket.socket, path: Path) -> None:
    """Write the body of an answer to a file."""
    head, rest = _head_of(wire)
    assert head.startswith(b"HTTP/1.1 200"), head
    room = memoryview(bytearray(_PIECE_BYTES))
    with path.open("wb") as file:
        left = int(_fields(head)["content-length"]) - file.write(rest)
        while left:
            count = wire.recv_into(room)
            assert count, "the body broke off"
            left -= file.write(room[:count])


def http_process(manager: int) -> int:
    """The id of the HTTP process that a queue manager has started."""
    for each in Path(f"/proc/{manager}/task").glob("*/children"):
        for child in each.read_text().split():
            if b"dray.console.v1" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("the queue manager has no HTTP process")


def highest_memory(process: int) -> int:
    """The highest memory of a process so far, in bytes."""
    found = _HIGHEST.search(Path(f"/proc/{process}/status").read_text())
    assert found is not None, "Linux tells it"
    return int(found[1]) << 10


def _head_of(wire: socket.socket) -> tuple[bytes, bytes]:
    """The head of an answer, and what came of its body already."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = wire.recv(_PIECE_BYTES)
        assert piece, "the answer broke off"
        found += piece
    head, _, rest = found.partition(b"\r\n\r\n")
    return head, rest


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
