"""The expected contents of one queue manager, in plain dictionaries, from its conversations.

Written without a look at the manager. A message is its key, (source manager id, number); its record
is kept once, as it was sent. `frozen` gives the contents at one moment, which is what a crash may
bring back; nothing in it is shared with what comes later.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[str, int]
PRIORITY_TOP = 7


@dataclass
class Gathered:
    """A transaction: what it sends, takes and moves, by queue, and what it has rejected of that."""

    number: int
    session: int = 0
    frames: int = 0
    sends: dict[str, list[Key]] = field(default_factory=dict)
    takes: dict[str, list[Key]] = field(default_factory=dict)
    moves: dict[tuple[str, str], list[Key]] = field(default_factory=dict)
    rejected: set[tuple[str, Key]] = field(default_factory=set)
    doomed: bool = False
    """Whether one of its sends was refused: nothing more of it is placed."""
    batch: tuple[str, int] = ("", 0)
    """Query and batch id for which it is staged."""
    fails: str = ""
    """The error that will refuse its commit; None if it may commit."""

    def held(self) -> Iterator[tuple[str, Key]]:
        """Its messages, by queue; nobody else sees them before its end."""
        for name, keys in self.takes.items():
            yield from ((name, key) for key in keys)
        for (name, _), keys in self.moves.items():
            yield from ((name, key) for key in keys)


class Frozen(NamedTuple):
    """Everything durable at one moment: without express messages."""

    turn: int
    queues: dict[str, tuple[tuple[int, int, Key], ...]]
    """Messages by queue, each with what it sorts by: priority rank, and order of arrival."""
    admitted: dict[str, int]
    """The number of messages that ever joined each queue: the next one's position is one higher."""
    accepted: dict[int, tuple[int, int]]
    """Sequence id and number up to which each incoming stream was accepted."""
    leased: int
    """Numbers below this were given out."""
    prepared: dict[int, Gathered]
    """Transactions that wait for their second phase; they do not change any more."""
    staged: dict[int, Gathered]
    """Transactions that wait for the commit of their batch."""
    batches: dict[str, dict[int, tuple[bytes, int]]]
    """Digest and transaction of the last two batches of each query, by batch id."""
    heard: int
    """The number of the peer's confirmations that were acted upon."""
    classes: dict[tuple[str, Key], int]
    """The class of each message, by queue, that is not an ordinary one: what became of it."""
    quotas: dict[str, int | None]
    """The quotas of those queues that have one, or had."""


@dataclass
class Known:
    """Things that hold in every run of the manager: records, and outcomes by turn."""

    records: dict[Key, bytes] = field(default_factory=dict)
    committed_in: dict[int, int] = field(default_factory=dict)
    """The turn in which each transaction was committed."""
    tried: list[int] = field(default_factory=list)
    """Every transaction that was begun, newest last."""
    parts_of: dict[Key, list[Key]] = field(default_factory=dict)
    """All parts of each large message, by its header."""
    peer: tuple[int, int, int] = (0, 0, 0)
    """Messages that the peer has accepted: sequence id, number, position in the outgoing queue."""
    told: list[tuple[int, int]] = field(default_factory=list)
    """The peer's confirmations in order: number and outcome of a message."""
    expires: dict[Key, float] = field(default_factory=dict)
    """When the time of a message is over, if it ever is."""

    def as_of(self, frozen: Frozen, peer: tuple[int, int, int], told: int) -> Known:
        """The model for a run that goes on from there: later beginnings never happened.

        So many confirmations the peer had made by then.
        """
        committed = {number: at for number, at in self.committed_in.items() if at <= frozen.turn}
        tried = [number for number in self.tried if number < frozen.leased]
        return Known(
            dict(self.records),
            committed,
            tried,
            dict(self.parts_of),
            peer,
            self.told[:told],
            dict(self.expires),
        )


class Contents:
    """The present contents of the queues."""

    def __init__(self, known: Known, frozen: Frozen | None = None) -> None:
        """Begin empty, or go on from what a crash has brought back."""
        self.known = known
        self.turn = frozen.turn if frozen else 0
        self.queues = {name: list(each) for name, each in frozen.queues.items()} if frozen else {}
        self.admitted = dict(frozen.admitted) if frozen else {}
        self.accepted = dict(frozen.accepted) if frozen else {}
        self.leased = frozen.leased if frozen else 0
        self.prepared = dict(frozen.prepared) if frozen else {}
        self.for_batches = dict(frozen.staged) if frozen else {}
        self.batches = dict(frozen.batches) if frozen else {}
        self.heard = frozen.heard if frozen else 0
        self.held = {each for gathered in self.prepared.values() for each in gathered.held()}
        self.express: set[tuple[str, Key]] = set()
        self.classes = dict(frozen.classes) if frozen else {}
        self.quotas = dict(frozen.quotas) if frozen else {}
        self.open: list[Gathered] = []
        """Transactions of clients that have not ended; a crash ends them."""

    def frozen(self) -> Frozen:
        """Write down what lasts of the contents."""
        queues = {
            name: tuple(each for each in entries if (name, each[2]) not in self.express)
            for name, entries in self.queues.items()
        }
        return Frozen(
            self.turn,
            queues,
            dict(self.admitted),
            dict(self.accepted),
            self.leased,
            dict(self.prepared),
            dict(self.for_batches),
            dict(self.batches),
            self.heard,
            dict(self.classes),
            dict(self.quotas),
        )

    def add_queue(self, name: str) -> None:
        """A queue was made."""
        self.queues[name] = []
        self.admitted[name] = 0

    def drop_queue(self, name: str) -> None:
        """A queue was deleted."""
        del self.queues[name], self.admitted[name]

    def admit(
        self, name: str, keys: Iterable[Key], *, priorities: bool = False, message_class: int = 0
    ) -> None:
        """Messages joined a queue, as messages of a class."""
        for key in keys:
            self.admitted[name] += 1
            rank = PRIORITY_TOP - self.known.records[key][6] if priorities else PRIORITY_TOP
            insort(self.queues[name], (rank, self.admitted[name], key))
            if message_class:
                self.classes[name, key] = message_class

    def remove(self, name: str, keys: Iterable[Key]) -> None:
        """Messages left a queue."""
        leaving = set(keys)
        self.queues[name] = [each for each in self.queues[name] if each[2] not in leaving]
        self.held.difference_update((name, key) for key in leaving)
        self.express.difference_update((name, key) for key in leaving)
        for key in leaving:
            self.classes.pop((name, key), None)

    def available(self, name: str) -> list[Key]:
        """The messages that a receiver could get, in order."""
        return [key for _, _, key in self.queues[name] if (name, key) not in self.held]

    def classed(self, name: str, keys: Iterable[Key]) -> list[tuple[Key, int]]:
        """Messages of a queue, each with its class."""
        return [(key, self.classes.get((name, key), 0)) for key in keys]

    def used(self, name: str) -> int:
        """Bytes in a queue."""
        return self.bytes_of(key for _, _, key in self.queues[name])

    def staged(self, name: str) -> int:
        """Bytes that transactions have sent to a queue and not committed."""
        transactions = (*self.open, *self.prepared.values(), *self.for_batches.values())
        return sum(self.bytes_of(each.sends.get(name, ())) for each in transactions)

    def bytes_of(self, keys: Iterable[Key]) -> int:
        """Bytes of messages."""
        return sum(len(self.known.records[key]) for key in keys)


def keys_of(frozen: Frozen, name: str) -> list[Key]:
    """The messages of a queue that can be seen, in order."""
    held = {each for gathered in frozen.prepared.values() for each in gathered.held()}
    return [key for _, _, key in frozen.queues[name] if (name, key) not in held]


def classed(frozen: Frozen, name: str) -> list[tuple[Key, int]]:
    """The messages of a queue that can be seen, in order, each with its class."""
    return [(key, frozen.classes.get((name, key), 0)) for key in keys_of(frozen, name)]
