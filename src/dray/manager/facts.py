"""Facts: what QMLog holds. Each is one change of the manager's durable state, whole or absent.

A fact says what became so, never what was asked; the facts in order, applied to an empty state,
give the state at any time and after any crash. Numbers of queues, messages and transactions are the
manager's own, `tails` packed entries (`entries/`), `lookups` packed 64-bit positions. Tags and the
meaning of fields never change; new fields come last, with a default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Union

import msgspec

from dray.model.ids import Incarnation
from dray.model.queue import QueueOptions


class Confirmation(msgspec.Struct, array_like=True, frozen=True):
    """A confirmation for a source about a message; without a queue no acknowledgment is sent."""

    number: int
    message_class: int
    administration_queue: str = ""
    label: str = ""
    origin: str = ""
    """The origin of the message; empty if it is the source itself."""
    hops: int = 0
    """The number of managers that have told it on."""
    sequence: int = 0
    """For a part of a large message: the number of its header, by which its sender knows it."""


class Fact(msgspec.Struct, array_like=True, frozen=True, tag_field="type"):
    """One durable change."""


class ManagerNamed(Fact, frozen=True, tag=1):
    """The first fact of a store: whose it is, and the private key of which the id comes."""

    manager_id: str
    name: str
    key: bytes = b""


class NumbersLeased(Fact, frozen=True, tag=2):
    """Numbers below `upto` have been given away."""

    upto: int


class QueueCreated(Fact, frozen=True, tag=3):
    """A queue came to be. An outgoing one delivers to `remote_queue` at `host`:`port`."""

    number: int
    name: str
    kind: str
    options: QueueOptions
    host: str = ""
    port: int = 0
    remote_queue: str = ""
    parent: int = 0
    """For a journal or sub-queue: its queue."""
    secure: bool = False
    """Whether an outgoing one delivers through TLS."""
    born: int = 0
    """Its birth number: no other queue of this manager ever has the same."""
    first_position: int = 1
    """Its first position: above those of all queues of its name that were deleted before."""


class QueueDeleted(Fact, frozen=True, tag=4):
    """A queue and all its messages are gone; of an outgoing one, its stream has ended."""

    number: int
    when_us: int = 0


class Committed(Fact, frozen=True, tag=5):
    """A transaction happened: messages joined queues, then messages left queues.

    Transaction 0 is the manager's own, as of a purge. A `moved` message stays where it lies.
    """

    transaction: int
    when_us: int
    sends: list[tuple[int, bytes]]
    receives: list[tuple[int, bytes]]
    moved: list[tuple[int, bytes]] = []
    confirmations: list[tuple[str, int, list[Confirmation]]] = []
    """Confirmations for the sources of streams: source, stream, confirmations."""
    heard: tuple[int, int] = (0, 0)
    """The stream whose confirmations, and up to which, this fact acts upon."""
    receipt: bytes = b""
    """The receipt that came with these confirmations."""


class Accepted(Fact, frozen=True, tag=6):
    """Messages of a stream joined a queue, and the stream is accepted up to number `upto`."""

    source: str
    stream: int
    sequence_id: int
    upto: int
    queue: int
    when_us: int
    tails: bytes
    confirmations: list[Confirmation] = []
    origins: list[str] = []
    """Origins whose messages have never come by this stream into this queue before."""
    going: list[tuple[str, int]] = []
    """Origins with a change: the open transaction, 0 for none."""
    passed: bool = False
    """Whether an outgoing queue has to tell on that a transaction was truncated."""
    incarnation: int = 0
    """The incarnation in which the source sent them; 0 if that of the last ones before."""


class Delivered(Fact, frozen=True, tag=7):
    """The peer has accepted an outgoing queue's messages up to a position, durably.

    Those of them that are still to be confirmed keep their place and join the order queue.
    """

    queue: int
    upto: int
    when_us: int = 0
    awaiting: bytes = b""
    stayed: bytes = b""
    """Positions that this went past, of messages that could not be read and so have not gone."""
    receipt: bytes = b""
    """The receipt that came with the order ack."""


class QueuePaused(Fact, frozen=True, tag=8):
    """Delivery of an outgoing queue was stopped or let go on."""

    number: int
    paused: bool


class QuotaSet(Fact, frozen=True, tag=9):
    """Quotas were set, of a queue or, with number 0, of the manager. None is no limit."""

    number: int
    quota: int | None
    journal_quota: int | None


class PutBack(Fact, frozen=True, tag=30):
    """A transaction that had taken these messages was aborted: each counts one attempt more."""

    queue: int
    lookups: bytes


class ConfirmationsTaken(Fact, frozen=True, tag=31):
    """A source has what it was told of a stream, up to a confirmation."""

    source: str
    stream: int
    upto: int


class ConfirmationsAbove(Fact, frozen=True, tag=36):
    """A source has heard ordinals of another copy of this store, or of another manager.

    The confirmations that it is still to be told have ordinals above `ordinal` from now on.
    """

    source: str
    stream: int
    ordinal: int


class Prepared(Fact, frozen=True, tag=32):
    """A transaction has passed its first phase: it survives everything until it is settled."""

    transaction: int
    sends: list[tuple[int, bytes]]
    receives: list[tuple[int, bytes]]
    moves: list[tuple[int, int, bytes]] = []
    rejected: list[tuple[int, int]] = []
    caller: str = ""


class BatchStaged(Prepared, frozen=True, tag=70):
    """A transaction is prepared, and only the commit of a batch may commit it."""

    query: str = ""
    batch: int = 0
    when_us: int = 0


class BatchCommitted(Fact, frozen=True, tag=71):
    """A batch of a query of `caller`: its messages join queues by a `Committed` of the group."""

    query: str
    batch: int
    digest: bytes
    messages: int
    transaction: int
    staged: list[int]
    when_us: int
    caller: str = ""


class PreparedAborted(Fact, frozen=True, tag=33):
    """A prepared transaction was settled: nothing of it happened."""

    transaction: int


class StreamRenewed(Fact, frozen=True, tag=10):
    """The rest of an outgoing queue goes on in a new sequence.

    `judged` is the position of the peer that led to it: sequence id, number, incarnation.
    """

    queue: int
    sequence_id: int
    judged: tuple[int, int, int] = (0, 0, 0)


class Restored(Fact, frozen=True, tag=11):
    """The store is an older copy of itself: from now on it gives out higher numbers than ever.

    `taken_us` tells when the backup was taken from which it was restored; 0 if a peer's word or the
    start found out that the store had been put back.
    """

    taken_us: int
    when_us: int


class StreamEnded(Fact, frozen=True, tag=12):
    """At the destination: a stream has ended, or (`ended` false) is there again after a restore."""

    source: str
    stream: int
    when_us: int
    ended: bool = True


class EndForgotten(Fact, frozen=True, tag=13):
    """At the source: of a stream that has ended nobody is to be told any more."""

    stream: int


class IncarnationBegan(Fact, frozen=True, tag=14):
    """The manager was started; `age` is how many facts the store held then (`lineage.py`)."""

    number: int
    age: int
    when_us: int


class SourceMet(Fact, frozen=True, tag=16):
    """At the destination: a source sends in a new incarnation; all of its store, oldest first."""

    source: str
    incarnations: list[Incarnation]


class PeerMet(Fact, frozen=True, tag=17):
    """The manager that answers at an address, its certificate, and when we last sent to it."""

    host: str
    port: int
    secure: bool
    manager_id: str
    when_us: int
    sent_in: int = 0
    caller: str = ""


class PeerForgotten(Fact, frozen=True, tag=18):
    """A person has said that any manager may answer at an address."""

    host: str
    port: int
    secure: bool


class SourceBound(Fact, frozen=True, tag=23):
    """By which caller a manager comes, from its first stream on; an empty one binds it no more."""

    source: str
    caller: str
    when_us: int


class StreamDiverged(Fact, frozen=True, tag=19):
    """The peer of an outgoing queue took messages from a copy of this store: the stream stops."""

    queue: int
    sequence_id: int
    upto: int
    when_us: int


class DivergenceResolved(Fact, frozen=True, tag=22):
    """A person has decided: what an outgoing queue holds goes in a new sequence."""

    queue: int


class PurgePending(Fact, frozen=True, tag=34):
    """Messages that a transaction held when its queue was purged: they leave unless it commits."""

    queue: int
    lookups: bytes


class LargeMoved(Fact, frozen=True, tag=35):
    """A large message that its receiver held has moved to a queue of its family, parts in order."""

    queue: int
    target: int
    runs: list[int]
    """Its positions, see `runs_of`."""
    when_us: int


class PositionsReserved(Fact, frozen=True, tag=60):
    """Express messages may take positions of a queue below `upto` that nothing else has taken.

    They themselves are in no fact; what joins by a fact afterwards stands behind all of them.
    """

    queue: int
    upto: int
    when_us: int


class Relocated(Fact, frozen=True, tag=40):
    """Records of a queue's messages have moved: positions, and the new place of each, packed."""

    queue: int
    lookups: bytes
    places: bytes


class QueueOptionsSet(Fact, frozen=True, tag=20):
    """Options of a queue were changed in its file; `transactional` never changes."""

    number: int
    options: QueueOptions


class QueueFilesKept(Fact, frozen=True, tag=21):
    """Every queue has its file in `storage/lqs`; from here on one that is missing was lost."""


class UploadBegun(Fact, frozen=True, tag=50):
    """An upload that can be resumed began; `source` is what its client says of where it is from."""

    number: int
    queue: int
    source: bytes
    reserved: int
    when_us: int
    caller: str = ""


class UploadMarked(Fact, frozen=True, tag=51):
    """More parts of an upload are placed; `size` and `digest` are of the body up to here."""

    number: int
    tails: bytes
    size: int
    digest: bytes
    when_us: int


class UploadDropped(Fact, frozen=True, tag=52):
    """An upload was given up."""

    number: int


class TokenSet(Fact, frozen=True, tag=80):
    """A token of this hash is taken from a time to another (0: for ever); without, no more."""

    name: str
    digest: bytes = b""
    times_us: tuple[int, int] = (0, 0)


def _kinds(fact: type[Fact]) -> Iterator[type[Fact]]:
    for kind in fact.__subclasses__():
        yield kind
        yield from _kinds(kind)


encode_fact = msgspec.msgpack.Encoder().encode
decode_fact: Callable[[bytes], Fact] = msgspec.msgpack.Decoder(Union[*_kinds(Fact)]).decode


def pack_lookups(lookup_ids: list[int]) -> bytes:
    """Pack positions as a fact carries them (64-bit, little-endian)."""
    return struct.pack(f"<{len(lookup_ids)}Q", *lookup_ids)


def runs_of(lookup_ids: list[int]) -> list[int]:
    """Tell rising positions as runs: how many are passed over, how many follow, and so on."""
    runs: list[int] = []
    before = -1
    for lookup_id in lookup_ids:
        if runs and lookup_id == before + 1:
            runs[-1] += 1
        else:
            runs += [lookup_id - before - 1, 1]
        before = lookup_id
    return runs


def positions_in(runs: list[int]) -> Iterator[int]:
    """Read what `runs_of` wrote."""
    at = 0
    for passed, count in zip(runs[::2], runs[1::2], strict=True):
        yield from range(at + passed, at + passed + count)
        at += passed + count


def unpack_lookups(packed: bytes) -> list[int]:
    """Read what `pack_lookups` wrote."""
    return list(struct.unpack(f"<{len(packed) // 8}Q", packed))
