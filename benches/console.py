"""The console: one large file up and down, its pages, and what they cost those who send.

A file goes up to the sample's queue and comes down again through the console, and beside that by
`dray send --large` and `dray receive --large`, over the same Unix socket in the same round. The
console's growth is the peak of its resident memory less what it had before. `console_load` measures
what the pages take, and what they cost those who send.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import dray
from benches import console_load as load
from benches.http import receive_body, send_body
from benches.limits import make_payload
from benches.processes import peak, reset_peak
from benches.results import Result
from dray.model.limits import MIB
from dray.testing.processes import ManagerProcess

SIZE_FACTOR = 2
"""Twice the size of the other benchmarks: 2 GiB unless said otherwise."""
GROWTH_MIB_MAX = 64
RATE_MIN = 0.5
_LINK = re.compile(r"open (http://([\d.]+):(\d+)/start/\S+)")
_HELD = re.compile(r'data-id="([^"]+)"')
_COMMAND = [sys.executable, "-m", "dray.cli"]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; one file of twice `size` bytes in each round."""
    payload = make_payload(folder / "payload", size * SIZE_FACTOR)
    options = ["--quota", "64GiB", "--socket", str(folder / "s")]
    with ManagerProcess("console", folder, options):
        url = f"dray+unix://{folder}/s"
        with BenchConsole(url, folder) as console:
            files = _files(folder, payload, console, url, rounds=rounds)
        # As `dray serve --console` starts it, it gives way to the queue manager.
        with BenchConsole(url, folder, "--until-input-ends") as console:
            return [*files, *load.measured(console, url, rounds)]


class BenchConsole:
    """`dray console` as a process, and a session at it."""

    def __init__(self, url: str, folder: Path, *options: str) -> None:
        """Start it with `with`."""
        self._command = [*_COMMAND, "--url", url, "console", "--listen", "127.0.0.1:0", *options]
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._place = ("", 0)
        self._cookie = ""

    def __enter__(self) -> Self:
        """Start it, and exchange its start link for a session."""
        given = os.environ | {"XDG_RUNTIME_DIR": str(self._folder)}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=given
        )
        assert self._process.stdout is not None
        found = _LINK.search(self._process.stdout.readline())
        assert found is not None, "the console did not start"
        self._place = (found[2], int(found[3]))
        connection = http.client.HTTPConnection(*self._place)
        connection.request("GET", "/start/" + found[1].rpartition("/")[2])
        answer = connection.getresponse()
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        connection.close()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=30)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def visitor(self) -> dict[str, object]:
        """The arguments of a client that calls it with this session."""
        host, port = self._place
        return {"host": host, "port": port, "cookie": self._cookie}

    def read(self, method: str, path: str, body: str | None = None, *, part: bool = True) -> str:
        """The text of an answer of status 200: a part of a page, or the whole."""
        connection = http.client.HTTPConnection(*self._place, timeout=600)
        with closing(connection):
            headers = self._headers()
            if not part:
                del headers["Dray-Fragment"]
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == http.HTTPStatus.OK, f"{answer.status}: {text}"
            return text

    def send(self, path: str, file: Path) -> None:
        """Send a file as a browser does."""
        with self._asking("PUT", path, f"Content-Length: {file.stat().st_size}") as wire:
            said = send_body(wire, file)
            assert said.startswith(b"HTTP/1.1 200"), said

    def save(self, path: str, to: Path) -> None:
        """Save a body as a browser does."""
        with self._asking("GET", path) as wire:
            receive_body(wire, to)

    @contextmanager
    def _asking(self, method: str, path: str, *lines: str) -> Iterator[socket.socket]:
        """The head of a request on a connection of its own, which only copies."""
        host, port = self._place
        own = (f"{name}: {value}" for name, value in self._headers().items())
        head = (f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", *own, *lines, "", "")
        with socket.create_connection(self._place) as wire:
            wire.sendall("\r\n".join(head).encode())
            yield wire

    def _headers(self) -> dict[str, str]:
        host, port = self._place
        return {
            "Cookie": self._cookie,
            "Origin": f"http://{host}:{port}",
            "Dray-Fragment": "1",
            "Content-Type": "application/x-www-form-urlencoded",
        }


def _files(
    folder: Path, payload: Path, console: BenchConsole, url: str, *, rounds: int
) -> list[Result]:
    size = payload.stat().st_size
    took: dict[str, list[float]] = {"up": [], "down": [], "send": [], "receive": []}
    growth = []
    with dray.connect(url) as manager:
        manager.create_queue("largemessageq")
        manager.create_queue("beside")
        # Heap files are recycled, and the first ones are the slowest; so each has a turn before.
        _ways(folder, payload, console, url)
        for _ in range(rounds):
            before = reset_peak(console.pid)
            found = _ways(folder, payload, console, url)
            growth.append((peak(console.pid) - before) / MIB)
            for name, seconds in found.items():
                took[name].append(size / 1e6 / seconds)
    return [
        Result("up through the console", "MB/s", took["up"], "dray send", took["send"], RATE_MIN),
        Result(
            "down through the console", "MB/s", took["down"], "dray receive", took["receive"],
            RATE_MIN,
        ),
        Result(f"console, {size / MIB:,.0f} MiB both ways", "MiB", growth, bar=GROWTH_MIB_MAX),
    ]  # fmt: skip


def _ways(folder: Path, payload: Path, console: BenchConsole, url: str) -> dict[str, float]:
    """Seconds of each way, the console's and the command's by turns."""
    label = "label=payload&fragment_size=0"
    took = {}
    began = time.perf_counter()
    console.send(f"/sample/sent/large?{label}", payload)
    took["up"] = time.perf_counter() - began
    took["send"] = _timed(url, "send", "--large", "beside", str(payload))
    began = time.perf_counter()
    held = _HELD.search(console.read("POST", "/sample/receive", ""))
    assert held is not None
    console.save(f"/sample/received/{held[1]}", folder / "out")
    assert (folder / "out").stat().st_size == payload.stat().st_size
    console.read("POST", f"/sample/received/{held[1]}/keep", "")
    took["down"] = time.perf_counter() - began
    (folder / "out").unlink()
    into = folder / "into"
    into.mkdir()
    took["receive"] = _timed(url, "receive", "--large", "beside", "--to", str(into))
    for each in into.iterdir():
        each.unlink()
    into.rmdir()
    return took


def _timed(url: str, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([*_COMMAND, "--url", url, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
