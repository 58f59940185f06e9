"""The console: one large file up and down, and what its pages cost those who send.

A file goes up to the sample's queue and comes down again through the console, and beside that by
`dray send --large` and `dray receive --large`, over the same Unix socket in the same round. The
console's growth is the peak of its resident memory less what it had before. Then ten browsers poll
a page over 1,000 queues, by turns, while 1 KiB messages are committed.
"""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import dray
from benches.limits import make_payload
from benches.processes import ClientProcess, peak, reset_peak
from benches.results import Result
from dray.model.limits import MIB
from dray.testing.processes import ManagerProcess

SIZE_FACTOR = 2
"""Twice the size of the other benchmarks: 2 GiB unless said otherwise."""
GROWTH_MIB_MAX = 64
RATE_MIN = 0.5
QUEUES = 1_000
BROWSERS = 10
EVERY_S = 1.5
"""Pages refresh each one to two seconds."""
COMMITS_S = 8.0
PAGE_MS_MAX = 300
P99_RATIO_MAX = 1.2
_LINK = re.compile(r"open (http://([\d.]+):(\d+)/start/\S+)")
_HELD = re.compile(r'data-id="([^"]+)"')
_PIECE_BYTES = 1 << 20
_COMMAND = [sys.executable, "-m", "dray.cli"]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; one file of twice `size` bytes in each round."""
    payload = make_payload(folder / "payload", size * SIZE_FACTOR)
    options = ["--quota", "64GiB", "--socket", str(folder / "s")]
    with ManagerProcess("console", folder, options):
        url = f"dray+unix://{folder}/s"
        with BenchConsole(url, folder) as console:
            files = _files(folder, payload, console, url, rounds=rounds)
            return [*files, *_polled(console, url, rounds)]


class BenchConsole:
    """`dray console` as a process, and a session at it."""

    def __init__(self, url: str, folder: Path) -> None:
        """Start it with `with`."""
        self._command = [*_COMMAND, "--url", url, "console", "--listen", "127.0.0.1:0"]
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._place = ("", 0)
        self._cookie = ""

    def __enter__(self) -> Self:
        """Start it, and exchange its start link for a session."""
        given = os.environ | {"XDG_RUNTIME_DIR": str(self._folder)}
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, env=given
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

    def browsers(self, page: str) -> dict[str, object]:
        """The arguments of browsers that poll a page for as long as commits are measured."""
        host, port = self._place
        seconds = COMMITS_S + 2 * EVERY_S
        asked = {"path": page, "browsers": BROWSERS, "every_s": EVERY_S, "for_s": seconds}
        return {"host": host, "port": port, "cookie": self._cookie, **asked}

    @contextmanager
    def ask(
        self, method: str, path: str, body: object = None
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(*self._place, timeout=600, blocksize=_PIECE_BYTES)
        host, port = self._place
        headers = {"Cookie": self._cookie, "Origin": f"http://{host}:{port}", "Dray-Fragment": "1"}
        if isinstance(body, str):
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        if isinstance(body, Path):
            with body.open("rb") as file:
                headers["Content-Length"] = str(body.stat().st_size)
                connection.request(method, path, file, headers)
        else:
            connection.request(method, path, body, headers)  # type: ignore[arg-type]
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def read(self, method: str, path: str, body: object = None) -> str:
        """The text of an answer of status 200."""
        with self.ask(method, path, body) as answer:
            text = answer.read().decode()
            assert answer.status == http.HTTPStatus.OK, f"{answer.status}: {text}"
            return text


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
    console.read("PUT", f"/sample/sent/large?{label}", payload)
    took["up"] = time.perf_counter() - began
    took["send"] = _timed(url, "send", "--large", "beside", str(payload))
    began = time.perf_counter()
    held = _HELD.search(console.read("POST", "/sample/receive", ""))
    assert held is not None
    with (
        console.ask("GET", f"/sample/received/{held[1]}") as answer,
        (folder / "out").open("wb") as to,
    ):
        while piece := answer.read(_PIECE_BYTES):
            to.write(piece)
        assert to.tell() == payload.stat().st_size
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


def _polled(console: BenchConsole, url: str, rounds: int) -> list[Result]:
    alone, beside, pages = [], [], []
    with dray.connect(url) as manager:
        for number in range(QUEUES):
            manager.create_queue(f"many-{number:04}").send(b"x")
        queue = manager.create_queue("commits")
        page = _page_of_queues(console)
        _p99(queue)
        for _ in range(rounds):
            alone.append(_p99(queue))
            with ClientProcess("poll_pages", **console.browsers(page)) as browsers:
                # Each browser has its first answer before the commits begin.
                time.sleep(EVERY_S)
                beside.append(_p99(queue))
                pages.append(statistics.median(browsers.result()["taken"]))
    ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
    verdict = "good" if ratio <= P99_RATIO_MAX else "MISSED"
    what = f"p99 of a 1 KiB commit, {BROWSERS} browsers at {page}"
    note = f"bar {P99_RATIO_MAX:g} times: {verdict}"
    return [
        Result(what, "ms", beside, "no browser", alone, note=note),
        Result(f"{page}, {QUEUES:,} queues", "ms", pages, bar=PAGE_MS_MAX),
    ]


def _page_of_queues(console: BenchConsole) -> str:
    """The page of all queues, if there is one."""
    with console.ask("GET", "/queues") as answer:
        answer.read()
        return "/queues" if answer.status == http.HTTPStatus.OK else "/sample/queue"


def _p99(queue: dray.Queue) -> float:
    """Milliseconds that one commit in a hundred takes longer than."""
    body = bytes(1_024)
    taken = []
    ends = time.perf_counter() + COMMITS_S
    while (began := time.perf_counter()) < ends:
        queue.send(body)
        taken.append(1_000 * (time.perf_counter() - began))
    queue.purge()
    return statistics.quantiles(taken, n=100)[98]
