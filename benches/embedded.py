"""A queue manager in the program itself (`dray.open`), against a queue in SQLite, in turns.

Both are in this process, on the same disk, and durable at each commit: SQLite in WAL mode with
`synchronous=FULL`, which syncs one file a commit.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import dray
from benches.results import Result

MESSAGE_BYTES = 1024
BATCH = 100
BATCHES = 100
LONE = 400
LONE_BAR = 1 / 1.3
RATE_BAR = 0.8


class SqliteQueue:
    """First in, first out, in one table."""

    def __init__(self, path: Path) -> None:
        """Make the table."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, body BLOB)")

    def send(self, body: bytes) -> None:
        """Append one message, durably."""
        self._connection.execute("INSERT INTO queue (body) VALUES (?)", (body,))

    def send_many(self, bodies: list[bytes]) -> None:
        """Append messages in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO queue (body) VALUES (?)", [(body,) for body in bodies]
        )
        self._connection.execute("COMMIT")

    def receive_many(self, most: int) -> list[bytes]:
        """Take the first messages in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        rows = self._connection.execute(
            "SELECT id, body FROM queue ORDER BY id LIMIT ?", (most,)
        ).fetchall()
        if rows:
            self._connection.execute("DELETE FROM queue WHERE id <= ?", (rows[-1][0],))
        self._connection.execute("COMMIT")
        return [body for _, body in rows]

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    measured = [_round(folder / f"round-{number}") for number in range(rounds)]
    found = {name: [each[name] for each in measured] for name in measured[0]}
    return [
        Result(f"{what}", unit, found[f"dray {what}"], "SQLite", found[f"sqlite {what}"], bar=bar)
        for what, unit, bar in (
            ("lone send, p50", "1/s", LONE_BAR),
            ("lone receive, p50", "1/s", None),
            ("in", "messages/s", RATE_BAR),
            ("out", "messages/s", RATE_BAR),
        )
    ]


def _round(folder: Path) -> dict[str, float]:
    folder.mkdir()
    body = bytes(MESSAGE_BYTES)
    bodies = [body] * BATCH
    other = SqliteQueue(folder / "queue.db")
    with dray.open(folder / "data") as manager:
        queue = manager.create_queue("queue")
        send = _in_turns(lambda: queue.send(body), lambda: other.send(body))
        receive = _in_turns(queue.receive, lambda: other.receive_many(1))
        into = _rates(lambda: queue.send_many(bodies), lambda: other.send_many(bodies))
        out = _rates(lambda: queue.receive_many(BATCH), lambda: other.receive_many(BATCH))
    other.close()
    found = {"lone send, p50": send, "lone receive, p50": receive, "in": into, "out": out}
    return {
        f"{who} {what}": pair[at]
        for what, pair in found.items()
        for at, who in enumerate(("dray", "sqlite"))
    }


def _in_turns(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Calls a second by the median of each, one after the other."""
    for each in (ours, theirs):
        for _ in range(20):
            each()
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(LONE - 20):
        for times, call in zip(took, (ours, theirs), strict=True):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return 1 / statistics.median(took[0]), 1 / statistics.median(took[1])


def _rates(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Messages a second, a batch at a time, by the median batch of each."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(BATCHES):
        for times, call in zip(took, (ours, theirs), strict=True):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return BATCH / statistics.median(took[0]), BATCH / statistics.median(took[1])
