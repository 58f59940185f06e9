"""Real kills: a queue manager in a process of its own, on a real disk, killed under traffic.

One client sends and receives in transactions, plain and large messages, and knows what must be in
which queue; at a moment drawn by chance the queue manager is killed with SIGKILL. It is started
again, what became of a commit in doubt is asked for, and everything goes on. Each message that
comes out must be the next one that was committed, to the byte; in the end all of them must have
come. A kill takes nothing back that the system was given; what this proves beyond the simulated
failures is the whole: processes, sockets, locks, files, and the order in which they do things.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from threading import Timer
from typing import Protocol

import dray
from dray.testing.promises import BrokenPromiseError

PLAIN, LARGE, STATUS = "torture", "torture-large", "statusq"
BODY_BYTES_MAX = 60_000
LARGE_BYTES_MAX = 3_000_000
FRAGMENT_BYTES = 500_000
LARGE_SHARE = 0.1
ABORTED_SHARE = 0.15
BACKLOG_MAX = 200
LIFE_S_MAX = 0.5
"""The longest time between a start and the next kill."""


class Killable(Protocol):
    """A queue manager as a process."""

    def start(self) -> None:
        """Start it and wait until it can be reached."""

    def kill(self) -> None:
        """SIGKILL it and wait for its end."""

    def connect(self) -> dray.Manager:
        """Connect to it."""


@dataclass
class KillTally:
    """The counts so far."""

    kills: int = 0
    transactions: int = 0
    in_doubt: int = 0
    messages: int = 0
    large: int = 0
    bytes: int = 0


@dataclass
class _Attempt:
    """The changes of a transaction to the queues if it is committed."""

    sent: dict[str, list[int]] = field(default_factory=lambda: {PLAIN: [], LARGE: []})
    taken: dict[str, int] = field(default_factory=lambda: {PLAIN: 0, LARGE: 0})
    id: str = ""


class KillLoop:
    """One queue manager, one client, and what must be in the queues."""

    def __init__(self, process: Killable, seed: int, tally: KillTally) -> None:
        self._process = process
        self._rng = Random(seed)
        self._tally = tally
        self._expected: dict[str, deque[int]] = {PLAIN: deque(), LARGE: deque()}
        self._next = 0
        process.start()
        with process.connect() as manager:
            for name in (PLAIN, LARGE, STATUS):
                manager.create_queue(name)

    def runs(self) -> Iterator[None]:
        """Live and be killed, again and again; yields after each kill. Raises what was broken."""
        while True:
            self._live()
            self._tally.kills += 1
            yield
            self._process.start()

    def finish(self) -> None:
        """After a kill: everything that was committed comes out, and nothing else."""
        self._process.start()
        with self._process.connect() as manager:
            while any(self._expected.values()):
                attempt = _Attempt()
                with manager.transaction() as transaction:
                    self._take_plain(manager, transaction, attempt, 100)
                    self._take_large(manager, transaction, attempt)
                if not any(attempt.taken.values()):
                    left = {name: len(each) for name, each in self._expected.items()}
                    raise BrokenPromiseError(f"messages are lost: {left} should still come")
                self._happened(attempt)
            for info in manager.queues():
                if info.message_count and info.name != STATUS:
                    raise BrokenPromiseError(f"{info.name!r} holds what nobody sent: {info}")

    def _live(self) -> None:
        killer = Timer(self._rng.uniform(0.0, LIFE_S_MAX), self._process.kill)
        attempt = None
        try:
            with self._process.connect() as manager:
                killer.start()
                while True:
                    attempt = _Attempt()
                    self._transact(manager, attempt)
        except dray.InDoubt as doubt:
            assert attempt is not None
            attempt.id = doubt.transaction_id
            self._tally.in_doubt += 1
        except (dray.ConnectionLost, dray.TransactionAborted):
            # Nobody was told that it was committed, and its commit was not asked for.
            attempt = None
        finally:
            # It was never started if nobody could connect.
            if killer.ident is not None:
                killer.join()
        if attempt is not None:
            self._resolve(attempt)

    def _resolve(self, attempt: _Attempt) -> None:
        self._process.start()
        with self._process.connect() as manager:
            status = manager.outcome(attempt.id)
        self._process.kill()
        if status is dray.TransactionStatus.COMMITTED:
            self._happened(attempt)
        elif status is not dray.TransactionStatus.ABORTED:
            raise BrokenPromiseError(f"what became of {attempt.id} is told as {status}")

    def _transact(self, manager: dray.Manager, attempt: _Attempt) -> None:
        transaction = manager.transaction()
        for _ in range(self._rng.randrange(1, 4)):
            if len(self._expected[PLAIN]) < BACKLOG_MAX:
                self._send_plain(manager, transaction, attempt)
        if self._rng.random() < LARGE_SHARE:
            self._send_large(manager, transaction, attempt)
        if self._rng.randrange(2):
            self._take_plain(manager, transaction, attempt, self._rng.randrange(1, 6))
        if self._rng.random() < LARGE_SHARE:
            self._take_large(manager, transaction, attempt)
        if self._rng.random() < ABORTED_SHARE:
            transaction.abort()
            return
        transaction.commit()
        self._happened(attempt)

    def _happened(self, attempt: _Attempt) -> None:
        self._tally.transactions += 1
        for name, count in attempt.taken.items():
            for _ in range(count):
                self._expected[name].popleft()
        for name, numbers in attempt.sent.items():
            self._expected[name].extend(numbers)

    def _send_plain(
        self, manager: dray.Manager, transaction: dray.Transaction, attempt: _Attempt
    ) -> None:
        body = _body(self._number(), BODY_BYTES_MAX)
        manager.queue(PLAIN).send(body, transaction=transaction)
        attempt.sent[PLAIN].append(self._next)
        self._tally.bytes += len(body)

    def _send_large(
        self, manager: dray.Manager, transaction: dray.Transaction, attempt: _Attempt
    ) -> None:
        body = _body(self._number(), LARGE_BYTES_MAX)
        queue = dray.LargeMessageQueue(manager.queue(LARGE), fragment_size=FRAGMENT_BYTES)
        queue.send(body, label=f"{self._next}", transaction=transaction)
        attempt.sent[LARGE].append(self._next)
        self._tally.bytes += len(body)

    def _take_plain(
        self, manager: dray.Manager, transaction: dray.Transaction, attempt: _Attempt, most: int
    ) -> None:
        queue = manager.queue(PLAIN)
        try:
            messages = queue.receive_many(most, timeout=0, transaction=transaction)
        except dray.ReceiveTimeout:
            messages = []
        for message in messages:
            wanted = self._wanted(PLAIN, attempt)
            if bytes(message.body) != _body(wanted, BODY_BYTES_MAX):
                raise BrokenPromiseError(f"what came is not message {wanted}, which was next")
            self._tally.messages += 1
        if not messages and len(self._expected[PLAIN]) > attempt.taken[PLAIN]:
            raise BrokenPromiseError(f"message {self._wanted(PLAIN, attempt)} did not come")

    def _take_large(
        self, manager: dray.Manager, transaction: dray.Transaction, attempt: _Attempt
    ) -> None:
        queue = dray.LargeMessageQueue(manager.queue(LARGE))
        try:
            message = queue.receive(timeout=0, transaction=transaction)
        except dray.ReceiveTimeout:
            if self._expected[LARGE]:
                raise BrokenPromiseError("a large message did not come") from None
            return
        with message:
            wanted = self._wanted(LARGE, attempt)
            digest = hashlib.sha256(message.body()).digest()
            if digest != hashlib.sha256(_body(wanted, LARGE_BYTES_MAX)).digest():
                raise BrokenPromiseError(f"what came is not large message {wanted}")
        self._tally.large += 1

    def _wanted(self, name: str, attempt: _Attempt) -> int:
        """The next message that must come out of a queue, which is now counted as taken."""
        at = attempt.taken[name]
        if at >= len(self._expected[name]):
            raise BrokenPromiseError(f"more came out of {name!r} than was committed")
        attempt.taken[name] += 1
        return self._expected[name][at]

    def _number(self) -> int:
        self._next += 1
        return self._next


def _body(number: int, most: int) -> bytes:
    """The body of a message: the same whenever it is made."""
    rng = Random(number)
    return rng.randbytes(rng.randrange(most))
