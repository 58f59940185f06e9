"""What clients do with small messages at each kind of queue, timed like `benches.clients`.

Every commit is durable before its answer, and every message that was taken is gone for good: Redis
with `appendfsync always`, PostgreSQL with a table and `skip locked`, SQLite in WAL with
`synchronous=FULL`, each by its project's own Python client, and Artemis by STOMP.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import dray
from benches.stomp import Stomp

BODY_BYTES = 1024
BATCH = 100
LONE_COUNT = 500
BATCHED_COUNT = 20_000
TOGETHER_COUNT = 6_400
CONNECTIONS = 64
_TABLE = "create table if not exists bench (id {key}, body {bytes} not null)"


class Door(ABC):
    """One connection to a queue."""

    @abstractmethod
    def send(self, bodies: list[bytes]) -> None:
        """Commit messages as one."""

    @abstractmethod
    def take(self) -> int:
        """Take a batch of messages for good; how many there were."""

    @abstractmethod
    def close(self) -> None:
        """End it."""


class DrayDoor(Door):
    """Dray, by its Unix socket or embedded."""

    def __init__(self, where: str) -> None:
        """Connect, or open the folder."""
        self._manager = dray.connect(where) if "://" in where else dray.open(where)
        self._queue = self._manager.create_queue("bench", transactional=True, exist_ok=True)

    def send(self, bodies: list[bytes]) -> None:
        """One message is a transaction of its own, and a batch is a transaction."""
        if len(bodies) == 1:
            self._queue.send(bodies[0])
            return
        with self._manager.transaction() as transaction:
            self._queue.send_many(bodies, transaction=transaction)

    def take(self) -> int:
        """Receive in a transaction."""
        with self._manager.transaction() as transaction:
            return len(self._queue.receive_many(BATCH, timeout=10, transaction=transaction))

    def close(self) -> None:
        """Hang up, or stop."""
        self._manager.close()


class RedisDoor(Door):
    """A list of Redis."""

    def __init__(self, where: str) -> None:
        """Connect by the Unix socket."""
        import redis

        self._redis: Any = redis.Redis(unix_socket_path=where)

    def send(self, bodies: list[bytes]) -> None:
        """One command, whose answer waits for the sync."""
        self._redis.rpush("bench", *bodies)

    def take(self) -> int:
        """One command too."""
        return len(self._redis.lpop("bench", BATCH) or ())

    def close(self) -> None:
        """Hang up."""
        self._redis.close()


class PostgresDoor(Door):
    """A table of PostgreSQL."""

    def __init__(self, where: str) -> None:
        """Connect by the Unix socket in a folder."""
        import psycopg

        self._connection: Any = psycopg.connect(
            f"host={where} user=postgres dbname=postgres", autocommit=True
        )

    def send(self, bodies: list[bytes]) -> None:
        """One statement, a transaction by itself."""
        self._connection.execute(
            "insert into bench (body) select unnest(%b::bytea[])", [bodies], prepare=True
        )

    def take(self) -> int:
        """Delete the first rows that nobody else has locked."""
        found = self._connection.execute(
            "delete from bench where id = any(array(select id from bench order by id limit %b"
            " for update skip locked)) returning body",
            [BATCH],
            prepare=True,
            binary=True,
        )
        return len(found.fetchall())

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    @staticmethod
    def prepare(where: str) -> None:
        """Make the table."""
        door = PostgresDoor(where)
        key = "bigint generated always as identity primary key"
        door._connection.execute(_TABLE.format(key=key, bytes="bytea"))
        door.close()


class ArtemisDoor(Door):
    """A queue of Artemis, by STOMP."""

    def __init__(self, where: str) -> None:
        """Connect by loopback: Artemis has no Unix socket."""
        self._stomp = Stomp(int(where))

    def send(self, bodies: list[bytes]) -> None:
        """One message with a receipt, or a transaction."""
        self._stomp.send(bodies)

    def take(self) -> int:
        """Receive in a transaction."""
        return len(self._stomp.take(BATCH))

    def close(self) -> None:
        """Hang up."""
        self._stomp.close()


class SqliteDoor(Door):
    """A table of SQLite."""

    def __init__(self, where: str) -> None:
        """Open the file."""
        self._connection = sqlite3.connect(where, isolation_level=None, timeout=60)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.execute("pragma synchronous=full")
        key = "integer primary key autoincrement"
        self._connection.execute(_TABLE.format(key=key, bytes="blob"))

    def send(self, bodies: list[bytes]) -> None:
        """One transaction."""
        self._connection.execute("begin immediate")
        self._connection.executemany("insert into bench (body) values (?)", zip(bodies))
        self._connection.execute("commit")

    def take(self) -> int:
        """One statement, a transaction by itself."""
        found = self._connection.execute(
            "delete from bench where id in (select id from bench order by id limit ?)"
            " returning body",
            [BATCH],
        )
        return len(found.fetchall())

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


DOORS: dict[str, Callable[[str], Door]] = {
    "artemis": ArtemisDoor,
    "dray": DrayDoor,
    "postgres": PostgresDoor,
    "redis": RedisDoor,
    "sqlite": SqliteDoor,
}


def prepare_postgres(where: str) -> dict[str, float]:
    """Make the table of PostgreSQL."""
    PostgresDoor.prepare(where)
    return {}


def small_lone(kind: str, where: str) -> dict[str, float]:
    """How long one message after the other takes, in microseconds."""
    door, body, took = DOORS[kind](where), os.urandom(BODY_BYTES), []
    for _ in range(LONE_COUNT):
        began = time.perf_counter()
        door.send([body])
        took.append((time.perf_counter() - began) * 1e6)
    _empty(door, LONE_COUNT)
    door.close()
    took.sort()
    return {"p50": took[LONE_COUNT // 2], "p99": took[LONE_COUNT * 99 // 100]}


def small_batches(kind: str, where: str) -> dict[str, float]:
    """Messages a second in batches, in and out."""
    door, body = DOORS[kind](where), os.urandom(BODY_BYTES)
    began = time.perf_counter()
    for _ in range(BATCHED_COUNT // BATCH):
        door.send([body] * BATCH)
    sent = time.perf_counter()
    _empty(door, BATCHED_COUNT)
    taken = time.perf_counter()
    door.close()
    return {"in": BATCHED_COUNT / (sent - began), "out": BATCHED_COUNT / (taken - sent)}


def small_together(kind: str, where: str) -> dict[str, float]:
    """Messages a second of many connections, each in a thread and with one message a commit."""
    doors, body = [DOORS[kind](where) for _ in range(CONNECTIONS)], os.urandom(BODY_BYTES)
    ready = threading.Barrier(CONNECTIONS + 1)

    def work(door: Door) -> None:
        ready.wait()
        for _ in range(TOGETHER_COUNT // CONNECTIONS):
            door.send([body])

    threads = [threading.Thread(target=work, args=[door]) for door in doors]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    _empty(doors[0], TOGETHER_COUNT)
    for door in doors:
        door.close()
    return {"rate": TOGETHER_COUNT / seconds}


def _empty(door: Door, count: int) -> None:
    """Take all that was sent, and notice if that is not what is there."""
    while count > 0:
        taken = door.take()
        assert taken, "messages that were sent are not there"
        count -= taken
