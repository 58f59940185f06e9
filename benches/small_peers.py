"""Messages of 1 KiB through Dray, Redis, PostgreSQL, Artemis and SQLite, in the same rounds.

All on this machine, by Unix sockets where there are any (Artemis has none), in Python, and all
synced before each answer: one message after the other, batches of 100 in and out, and 64
connections with one message each. SQLite has no server, so it stands beside `dray.open`. `make
peers` brings the others; those that are missing are left out with a line that says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from benches.peer_servers import (
    artemis,
    artemis_program,
    postgres,
    postgres_program,
    redis,
    those_here,
)
from benches.processes import client
from benches.results import Result
from dray.testing.processes import ManagerProcess

DRAY, EMBEDDED = "Dray", "dray.open"
WORK = {
    "one message, p50": ("small_lone", "p50", "us"),
    "one message, p99": ("small_lone", "p99", "us"),
    "batches of 100, in": ("small_batches", "in", "messages/s"),
    "batches of 100, out": ("small_batches", "out", "messages/s"),
    "64 connections": ("small_together", "rate", "messages/s"),
}
"""What is measured: by which client, under which name, in which unit."""
BARS: dict[tuple[str, str, str], float] = {
    ("one message, p50", DRAY, "Redis"): 1.0,
    ("one message, p50", EMBEDDED, "SQLite"): 1.3,
    ("batches of 100, in", DRAY, "Redis"): 1.0,
    ("batches of 100, in", EMBEDDED, "SQLite"): 0.8,
    ("batches of 100, out", DRAY, "PostgreSQL"): 0.8,
    ("batches of 100, out", EMBEDDED, "SQLite"): 0.8,
    ("64 connections", DRAY, "Redis"): 1.0,
    ("64 connections", DRAY, "PostgreSQL"): 1.0,
    ("64 connections", DRAY, "Artemis"): 1.0,
}
"""The ratio that is wanted to a peer: the least one of rates, the greatest one of times."""
P99_BAR = 2.0
"""A slow message takes at most so many times as long as one in the middle."""
Server = Callable[[Path], AbstractContextManager[str]]
Rates = dict[str, float]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    found: dict[str, list[Rates]] = {}
    # PostgreSQL runs as another account, and only needs to pass through.
    folder.chmod(0o711)
    for turn in range(rounds):
        home = folder / f"round-{turn}"
        home.mkdir(mode=0o711)
        for name, rates in _round(home):
            found.setdefault(name, []).append(rates)
    return list(_results(found))


def _results(found: dict[str, list[Rates]]) -> Iterator[Result]:
    for work, (_, _, unit) in WORK.items():
        for ours, peers in ((DRAY, ("Redis", "PostgreSQL", "Artemis")), (EMBEDDED, ("SQLite",))):
            mine = [rates[work] for rates in found[ours] if work in rates]
            for peer in peers:
                theirs = [rates[work] for rates in found.get(peer, ()) if work in rates]
                if mine and theirs:
                    bar = BARS.get((work, ours, peer))
                    turned = unit == "us"
                    yield Result(f"{work}: {ours}", unit, mine, peer, theirs, bar, turned=turned)
    for ours in (DRAY, EMBEDDED):
        p50, p99 = ([each[f"one message, {at}"] for each in found[ours]] for at in ("p50", "p99"))
        yield Result(
            f"one message, p99: {ours}", "us", p99, "its own p50", p50, P99_BAR, turned=True
        )


def _round(home: Path) -> Iterator[tuple[str, Rates]]:
    yield DRAY, _measured("dray", _dray, home / "dray")
    yield EMBEDDED, _measured("dray", _here, home / "embedded", together=False)
    yield "SQLite", _measured("sqlite", _here, home / "sqlite", together=False)
    yield from those_here(
        (name, program, module, partial(_measured, kind, server, home / kind))
        for name, kind, program, module, server in (
            ("Redis", "redis", "redis-server", "redis", redis),
            ("Artemis", "artemis", artemis_program(), "", artemis),
            ("PostgreSQL", "postgres", postgres_program("postgres"), "psycopg", postgres),
        )
    )


def _measured(kind: str, server: Server, home: Path, *, together: bool = True) -> Rates:
    # What the one before has left for the disk to write would be counted as this one's.
    os.sync()
    with server(home) as where:
        if kind == "postgres":
            client("prepare_postgres", where=where)
        names = ["small_lone", "small_batches", *(["small_together"] if together else [])]
        measured = {name: client(name, kind=kind, where=where) for name in names}
    shutil.rmtree(home, ignore_errors=True)
    return {
        work: measured[name][field] for work, (name, field, _) in WORK.items() if name in measured
    }


@contextmanager
def _dray(home: Path) -> Iterator[str]:
    home.mkdir()
    with ManagerProcess("manager", home, ["--socket", str(home / "s")]):
        yield f"dray+unix://{home / 's'}"


@contextmanager
def _here(home: Path) -> Iterator[str]:
    """A place for what runs in the client itself."""
    home.mkdir()
    yield str(home / "store")
