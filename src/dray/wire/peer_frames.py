"""Frames between managers: streams, order acks, confirmations (codes 60 to 74)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dray.model.ids import Incarnation
from dray.model.limits import ARRIVAL_ROUTES_MAX
from dray.wire.head import BATCH, Head, MissingParts, Receipt
from dray.wire.message_frames import Envelope

_GOING = msgspec.Meta(max_length=ARRIVAL_ROUTES_MAX)


class OpenStream(Head, frozen=True):
    """Begin to deliver an outgoing queue (`stream`, its number at the source) to `queue`.

    A name with a host is another manager's queue: then the one asked is to forward.
    The source has heard the confirmations up to the ordinal `heard`, and `receipt` is the last one
    that it has of the manager which it opens the stream at (`delivery/receipts.py`).
    Answered by StreamState or StreamRefused, which say the number of the last `question` again: so
    an answer that was given before another question was asked is not taken for that one's.
    `proof` shows that the caller holds the key of its id (`delivery/keys.py`).
    """

    code = 60
    stream: int
    queue: str
    question: int = 0
    heard: int = 0
    receipt: Receipt = b""
    proof: bytes = b""


class StreamState(Head, frozen=True):
    """The position up to which the destination has accepted a stream, durably; also an order ack.

    `transactional` tells of which kind the queue is that the stream leads to, `room` that there is
    room again for what was left out for want of it, or a queue that was missing. `refused` is the
    ordinal up to which the source has to hear its confirmations before this counts as an order ack,
    for they say which of those messages did not enter; 0 if it has heard them.
    `incarnation` is the incarnation of the source's store in which the last accepted message was
    sent, `met` all incarnations of that copy if the caller did not have that one. `receipt` tells
    how far the store of the destination has come; its source states it in the next OpenStream.
    """

    code = 61
    stream: int
    sequence_id: int
    upto: int
    transactional: bool = True
    question: int = 0
    room: bool = False
    refused: int = 0
    incarnation: int = 0
    met: list[Incarnation] = msgspec.field(default_factory=list)
    receipt: Receipt = b""


class StreamRefused(Head, frozen=True):
    """The stream cannot be taken now; the source keeps its messages and asks again later.

    Unless there is no such queue, or none that may be sent to: then nothing of it can be delivered.
    The position is what was accepted before, and counts as an order ack, as in `StreamState`.
    """

    code = 62
    stream: int
    error: str
    sentence: str
    sequence_id: int = 0
    upto: int = 0
    question: int = 0
    refused: int = 0
    incarnation: int = 0
    met: list[Incarnation] = msgspec.field(default_factory=list)
    receipt: Receipt = b""


class Confirmed(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of one message of the source, by number; a `MessageClass`.

    `administration_queue` is empty if no acknowledgment message was asked for, `origin` if the
    message is one of the source's own and not one that it forwarded. `hops` managers have told it
    on. `sequence` is that of a part of a large message, 0 of any other.
    """

    number: int
    message_class: int
    administration_queue: str = ""
    label: str = ""
    origin: str = ""
    hops: int = 0
    sequence: int = 0


class Confirmations(Head, frozen=True):
    """Destination to source: confirmations of a stream; the first one's ordinal is `first`.

    `receipt` as in StreamState.
    """

    code = 64
    pages = True
    stream: int
    first: int
    confirmations: list[Confirmed]
    receipt: Receipt = b""


class ConfirmationsAcked(Head, frozen=True):
    """Source to destination: what was confirmed up to this ordinal is durable here."""

    code = 65
    stream: int
    upto: int


class EndCount(msgspec.Struct, array_like=True, frozen=True):
    """The number of messages ended with a `MessageClass`; `origin` and `hops` as in `Confirmed`."""

    message_class: int
    count: int
    origin: str = ""
    hops: int = 0


class EndCounts(Head, frozen=True):
    """Destination to source: messages of a stream that ended, of which their senders asked nothing.

    Said once, not kept, not answered: a number for the operator of the source.
    """

    code = 71
    stream: int
    counts: list[EndCount]


class Going(msgspec.Struct, array_like=True, frozen=True):
    """A transaction of which more may still come: the manager it began at, and its number."""

    origin: str
    transaction: int


class Passed(Head, frozen=True):
    """Nothing up to a number comes any more: what was not sent has expired or was removed.

    Judged and acknowledged like a message of that number. Every transaction of the stream has ended
    by it, but those that are `going` on.
    """

    code = 66
    pages = True
    stream: int
    sequence_id: int
    previous: int
    upto: int
    going: Annotated[list[Going], _GOING] = msgspec.field(default_factory=list)


class TruncatedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """Below a number an origin has no open transaction; empty if the origin is the source."""

    number: int
    origin: str = ""


class Data(Head, frozen=True):
    """Messages of one stream in order, their records in the body.

    `previous` is the number before the first; each next one's previous number is its predecessor
    here. `truncated`, by rising number: transactions whose last message is not here though those
    of others are. With `ahead` the body is empty: each record came before, in an `Ahead` frame of
    the same transaction and ordinal.
    """

    code = 63
    pages = True
    stream: int
    sequence_id: int
    previous: int
    envelopes: Annotated[list[Envelope], BATCH]
    truncated: Annotated[list[TruncatedTransaction], BATCH] = msgspec.field(default_factory=list)
    ahead: bool = False


class Ahead(Head, frozen=True):
    """Source to destination: a fragment of a large message that is not committed; in the body.

    It is no message yet. `ordinal` is its place in its transaction's sends to the queue, and `crc`
    the CRC32C of the record. Answered by AheadKept.
    """

    code = 72
    stream: int
    transaction: int
    ordinal: int
    crc: int


class AheadDropped(Head, frozen=True):
    """Source to destination: a transaction was not committed; give up what came ahead of it."""

    code = 73
    stream: int
    transaction: int


class AheadKept(Head, frozen=True):
    """Destination to source: whether a piece is kept, uncommitted, on this connection.

    If it is not `kept`, no other piece of the transaction should be sent ahead. Without an
    `ordinal`, nothing of the transaction is kept any more; without a `transaction` either, nothing
    of the stream, and a Data frame that named a piece was not taken.
    """

    code = 74
    stream: int
    transaction: int = 0
    ordinal: int = 0
    kept: bool = False


class RepairWanted(Head, frozen=True):
    """Destination to source: parts of a large message of a stream are missing here.

    `sequence` is the number of its header, `missing` what is lacking: ranges [first, last] of
    fragment numbers, "header", "trailer". Answered by RepairAnswer, and by what can be sent again.
    """

    code = 67
    pages = True
    stream: int
    sequence: int
    missing: MissingParts


class RepairAnswer(Head, frozen=True):
    """Source to destination: what of it is not here; the rest comes by the stream."""

    code = 68
    pages = True
    stream: int
    sequence: int
    gone: MissingParts


class EndStream(Head, frozen=True):
    """Source to destination: the outgoing queue of a stream is deleted, nothing of it comes more.

    Answered by EndStreamAcked, durably. `proof` as in OpenStream.
    """

    code = 69
    stream: int
    proof: bytes = b""


class EndStreamAcked(Head, frozen=True):
    """Destination to source: it is known that a stream has ended, nobody has to say so again."""

    code = 70
    stream: int
