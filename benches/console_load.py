"""The pages of a console, and what a console costs those who send to its queue manager.

1 KiB messages are committed alone and, by turns, beside ten browsers that look at 1,000 queues, a
console that hangs, and one that is flooded. Then pages are opened over 1,000 queues and over 10,000
dead letters, half of them parts of large messages.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dray
from benches.processes import ClientProcess
from benches.results import Result

if TYPE_CHECKING:
    from benches.console import BenchConsole

QUEUES = 1_000
BROWSERS = 10
EVERY_S = 3.0
"""The page asks for its part of queues so often, as its `data-every` says."""
FLOODERS = 8
COMMITS_S = 8.0
PAGE_MS_MAX = 300
LETTERS_MS_MAX = 1_000
P99_RATIO_MAX = 1.2
RATE_MIN = 0.8
LETTERS = 5_000
PARTS = 500
"""Parts of one large message; ten of them are as many dead letters as the plain ones."""


def measured(console: BenchConsole, url: str, rounds: int) -> list[Result]:
    """Measure; first without any dead letter."""
    with dray.connect(url) as manager:
        for number in range(QUEUES):
            manager.create_queue(f"many-{number:04}").send(b"x")
        queue = manager.create_queue("commits")
        return [*_beside(console, queue, rounds), *_pages(console, manager, rounds)]


def _beside(console: BenchConsole, queue: dray.Queue, rounds: int) -> list[Result]:
    found: dict[str, list[list[float]]] = {"alone": [], "polled": [], "hung": [], "flooded": []}
    seconds = COMMITS_S + 2 * EVERY_S
    polls = {"path": "/queues", "browsers": BROWSERS, "every_s": EVERY_S, "for_s": seconds}
    floods = {"path": "/queues", "browsers": FLOODERS, "every_s": 0.0, "for_s": seconds, "nice": 19}
    _commits(queue)
    for _ in range(rounds):
        found["alone"].append(_commits(queue))
        with _hung(console.pid):
            found["hung"].append(_commits(queue))
        for name, asked in (("polled", polls), ("flooded", floods)):
            with ClientProcess("poll_pages", **console.visitor, **asked) as browsers:
                # Each browser has its first answer before the commits begin.
                time.sleep(EVERY_S)
                found[name].append(_commits(queue))
                browsers.result()
    p99 = {name: [_p99(each) for each in taken] for name, taken in found.items()}
    ratio = statistics.median(b / a for a, b in zip(p99["alone"], p99["polled"], strict=True))
    verdict = "good" if ratio <= P99_RATIO_MAX else "MISSED"
    note = f"bar {P99_RATIO_MAX:g} times: {verdict}"
    rates = {name: [len(each) / COMMITS_S for each in taken] for name, taken in found.items()}
    what = f"p99 of a 1 KiB commit, {BROWSERS} browsers at {QUEUES:,} queues"
    return [
        Result(what, "ms", p99["polled"], "no browser", p99["alone"], note=note),
        *(
            Result(f"1 KiB commits beside a console that is {how}", "1/s", rates[how],
                   "no browser", rates["alone"], RATE_MIN)
            for how in ("hung", "flooded")
        ),
    ]  # fmt: skip


def _pages(console: BenchConsole, manager: dray.Manager, rounds: int) -> list[Result]:
    queues = [_opened_ms(console, "/queues") for _ in range(rounds)]
    doomed = manager.create_queue("doomed")
    with manager.transaction() as transaction:
        for _ in range(LETTERS):
            doomed.send(b"x", transaction=transaction, use_dead_letter_queue=True)
    large = dray.LargeMessageQueue(manager.create_queue("heavy"), fragment_size=10)
    for _ in range(LETTERS // PARTS):
        large.send(bytes(10 * (PARTS - 2)), use_dead_letter_queue=True)
    doomed.purge()
    manager.queue("heavy").purge()
    letters = [_opened_ms(console, "/deadletters") for _ in range(rounds)]
    return [
        Result(f"first page of {QUEUES:,} queues", "ms", queues, bar=PAGE_MS_MAX),
        Result(f"page of {2 * LETTERS:,} dead letters", "ms", letters, bar=LETTERS_MS_MAX),
    ]


def _opened_ms(console: BenchConsole, path: str) -> float:
    """Milliseconds until a page is there that nobody has looked at for a while."""
    time.sleep(EVERY_S)
    began = time.perf_counter()
    console.read("GET", path, part=False)
    return 1_000 * (time.perf_counter() - began)


@contextmanager
def _hung(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _commits(queue: dray.Queue) -> list[float]:
    """Milliseconds of each commit, one after another."""
    body = bytes(1_024)
    taken = []
    ends = time.perf_counter() + COMMITS_S
    while (began := time.perf_counter()) < ends:
        queue.send(body)
        taken.append(1_000 * (time.perf_counter() - began))
    queue.purge()
    return taken


def _p99(taken: list[float]) -> float:
    """Milliseconds that one commit in a hundred takes longer than."""
    return statistics.quantiles(taken, n=100)[98]
