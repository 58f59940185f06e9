"""The last accepted position of each stream, and whether the next message may enter.

A stream is one outgoing queue of one source manager. For each stream the destination remembers the
sequence id and number that it accepted last. That memory advances only by the fact that also admits
the messages, so both are durable together or not at all. The predicate of semantics 2.3 then makes
delivery exactly once and in order. Accept a message iff

    (a) its sequence id is the remembered one, its number is above the remembered one, and its
        previous number is not; or
    (b) its sequence id is above the remembered one and its previous number is 0.

S2-5 says that the predecessor must be *present in the queue*. Read literally that would stop a
stream once its receiver is fast, so it means: was ever accepted, which is what is remembered (R34).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

import msgspec

from dray.errors import Misuse, ProtocolError
from dray.model.limits import PEERS_MET_MAX, STREAMS_PER_PEER_MAX


class StreamKey(NamedTuple):
    """The id of the source manager, and the number of its outgoing queue there."""

    source: str
    stream: int


class Position(NamedTuple):
    """The last accepted message of a stream; zeros before the first."""

    sequence_id: int = 0
    number: int = 0


class IncomingSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """One stream in a checkpoint. `last_access` is in seconds since the epoch."""

    source: str
    stream: int
    sequence_id: int
    number: int
    reject_count: int = 0
    last_access: float = 0.0
    incarnation: int = 0
    """The incarnation of the source that sent the message accepted last."""


class _Visits:
    """Counters of a stream for people; nothing is decided by them."""

    __slots__ = ("last_access", "reject_count")

    def __init__(self, reject_count: int = 0, last_access: float = 0.0) -> None:
        self.reject_count = reject_count
        self.last_access = last_access


class Acceptance(NamedTuple):
    """The place of a message after the last one accepted, and whether it may enter."""

    sequence: str
    number: str
    previous: str
    accepted: bool


INCOMING: Final = (
    Acceptance("lower", "any", "any", accepted=False),
    Acceptance("same", "not above", "any", accepted=False),
    Acceptance("same", "above", "above", accepted=False),
    Acceptance("same", "above", "not above", accepted=True),
    Acceptance("higher", "any", "not 0", accepted=False),
    Acceptance("higher", "any", "0", accepted=True),
)
"""The predicate of semantics 2.3: `accepts` looks every message up here."""

_SEQUENCES: Final = ("lower", "same", "higher")
_NUMBERS: Final = (frozenset({"any", "not above"}), frozenset({"any", "above"}))
_PREVIOUS: Final = (
    frozenset({"any", "0", "not above"}),
    frozenset({"any", "not 0", "not above"}),
    frozenset({"any", "not 0", "above"}),
)
"""The words that cover a previous number: of 0, of one up to the remembered one, of one above."""


def compiled(table: Iterable[Acceptance]) -> list[bool]:
    """Whether a message may enter, for each way in which it may stand; one row covers each."""
    found = []
    for sequence, number, previous in product(_SEQUENCES, _NUMBERS, _PREVIOUS):
        rows = [
            row
            for row in table
            if row.sequence == sequence and row.number in number and row.previous in previous
        ]
        assert len(rows) == 1, f"{sequence}, {sorted(number)}, {sorted(previous)}: {rows}"
        found.append(rows[0].accepted)
    return found


_ACCEPTED: Final = compiled(INCOMING)


def accepts(at: Position, sequence_id: int, number: int, previous: int) -> bool:
    """Decide about one message by the predicate of semantics 2.3."""
    sequence = (sequence_id >= at.sequence_id) + (sequence_id > at.sequence_id)
    before = 1 + (previous > at.number) if previous else 0
    return _ACCEPTED[6 * sequence + 3 * (number > at.number) + before]


class IncomingStreams:
    """Every stream that ever delivered here."""

    def __init__(self, snapshots: Iterable[IncomingSnapshot] = ()) -> None:
        """Begin with what a checkpoint knew."""
        self._positions: dict[StreamKey, Position] = {}
        self._visits: dict[StreamKey, _Visits] = {}
        self._incarnations: dict[StreamKey, int] = {}
        for each in snapshots:
            key = StreamKey(each.source, each.stream)
            self._incarnations[key] = each.incarnation
            self._positions[key] = Position(each.sequence_id, each.number)
            self._visits[key] = _Visits(each.reject_count, each.last_access)
        self._by_source = Counter(key.source for key in self._positions)

    def knows(self, key: StreamKey) -> bool:
        """Whether anything of a stream was ever accepted."""
        return key in self._positions

    def check_room(self, key: StreamKey) -> None:
        """Raise `Misuse` if too many streams are known to take another one."""
        if key in self._positions:
            return
        if self._by_source[key.source] >= STREAMS_PER_PEER_MAX:
            raise Misuse(
                f"{STREAMS_PER_PEER_MAX} streams of this queue manager are known at the"
                " destination; delete outgoing queues that nobody uses"
            )
        if key.source not in self._by_source and len(self._by_source) >= PEERS_MET_MAX:
            raise Misuse(
                f"{PEERS_MET_MAX} queue managers are known at the destination; it takes messages of"
                " no further one"
            )

    def position(self, key: StreamKey) -> Position:
        """The last accepted position, for the answer to OpenStream and for order acks."""
        return self._positions.get(key, Position())

    def incarnation(self, key: StreamKey) -> int:
        """The incarnation of the source that sent the message accepted last; 0 before the first."""
        return self._incarnations.get(key, 0)

    def admissible(
        self, key: StreamKey, sequence_id: int, previous: int, numbers: Sequence[int]
    ) -> int:
        """From which index on the messages of one Data frame may enter; their count if none may.

        In a frame each message's previous number is its predecessor's, so once one is accepted all
        behind it are: what the predicate leaves is always a suffix. Raises `ProtocolError` for
        numbers that do not rise, which no manager sends.
        """
        _check_rising(previous, numbers)
        at = self.position(key)
        if sequence_id != at.sequence_id:
            return 0 if accepts(at, sequence_id, at.number, previous) else len(numbers)
        for index, number in enumerate(numbers):
            # Any message before this one is not above the position, so the first's previous number
            # decides as this one's own would.
            if accepts(at, sequence_id, number, previous):
                return index
        return len(numbers)

    def accepted(self, key: StreamKey, sequence_id: int, number: int, incarnation: int = 0) -> None:
        """Apply the fact that admitted all up to a message. A stream only moves forward.

        `incarnation` is the source's, 0 if it is the same as before.
        """
        at = Position(sequence_id, number)
        assert at > self.position(key), f"{key} would go back from {self.position(key)} to {at}"
        if key not in self._positions:
            self._by_source[key.source] += 1
        self._positions[key] = at
        self._incarnations[key] = incarnation or self._incarnations.get(key, 0)
        self._visits.setdefault(key, _Visits()).reject_count = 0

    def visited(self, key: StreamKey, rejected: int, now: float) -> None:
        """Take note of a Data frame for those who look: how many of its messages were refused."""
        visits = self._visits.setdefault(key, _Visits())
        visits.reject_count += rejected
        visits.last_access = now

    def state(self) -> list[IncomingSnapshot]:
        """Everything, for a checkpoint."""
        return [
            IncomingSnapshot(
                *key, *at, visits.reject_count, visits.last_access, self._incarnations[key]
            )
            for key, at in self._positions.items()
            for visits in (self._visits[key],)
        ]


def _check_rising(previous: int, numbers: Sequence[int]) -> None:
    for number in numbers:
        if number <= previous:
            raise ProtocolError(f"message number {number} of a stream follows number {previous}")
        previous = number
