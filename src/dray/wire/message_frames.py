"""Frames about messages and transactions (codes 30 to 46)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from dray.model.limits import MESSAGE_NUMBER_MAX
from dray.model.queue import OpenTransactionInfo
from dray.wire.head import BATCH, Head
from dray.wire.selections import Select, SelectFirst


class Send(Head, frozen=True):
    """Records for one queue.

    Inside a transaction only a failure is answered, and it dooms the transaction; with transaction
    0 they are a transaction of their own, answered by Done.
    """

    code = 30
    pages = True
    queue: int
    transaction: int
    sizes: Annotated[list[int], BATCH]
    crcs: Annotated[list[int], BATCH]
    guarded: bool = True


class Reserve(Head, frozen=True):
    """Set aside room for `size` bytes that a transaction is going to send. Answered by Done.

    In records of at most `longest` bytes each; 0 if nobody knows.
    """

    code = 35
    queue: int
    transaction: int
    size: int
    longest: int = 0


class Commit(Head, frozen=True):
    """Answered by Done once durable. `sends` is how many Send frames must have come."""

    code = 31
    transaction: int
    sends: int


class Abort(Head, frozen=True):
    """Answered by Done."""

    code = 32
    transaction: int


class Outcome(Head, frozen=True):
    """Answered by OutcomeIs.

    `claim` says that it is a claim of the asker's (`Receive`), on a connection that is lost: one
    that is not committed is aborted, so the answer is final.
    """

    code = 33
    transaction_id: str
    claim: bool = False


class OutcomeIs(Head, frozen=True):
    """A `TransactionStatus`."""

    code = 34
    status: str


class Receive(Head, frozen=True):
    """Take messages or, with `peek`, look at them.

    Answered by Messages, or Failed when `timeout` seconds passed (None: wait for ever).
    Transaction 0 is a transaction of its own. With `claim` the transaction is of this one receive,
    from a queue of either kind: the messages are given before anything is synced, and its Commit
    says that they have come. Until then they are claimed, and go back if the session ends.
    """

    code = 40
    queue: int
    transaction: int
    timeout: float | None
    max_messages: int = 1
    max_bytes: int = 0
    peek: bool = False
    select: Select = SelectFirst()
    guarded: bool = True
    claim: bool = False


MARK_FIRST = 1
MARK_LAST = 2
"""The first and the last of what its transaction has sent to the queue."""
MARK_SINGLE = 4
"""Sent outside a transaction: a group of its own, welcome in queues of either kind."""
MARK_LARGE = 8
"""Its transaction has sent large messages to the queue, alone or among small ones."""

FOLLOWING_MAX = 1023
"""`Envelope.following` says no more than this."""


_TIME_US_MAX: Final = 253_402_300_799_999_999
"""The end of the year 9999, the last that a calendar has."""
_Byte = Annotated[int, msgspec.Meta(ge=0, le=(1 << 8) - 1)]
_Short = Annotated[int, msgspec.Meta(ge=0, le=(1 << 16) - 1)]
_Word = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=MESSAGE_NUMBER_MAX)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=_TIME_US_MAX)]
_Left = Annotated[int, msgspec.Meta(ge=-1, le=_TIME_US_MAX)]
_Ordinal = Annotated[int, msgspec.Meta(ge=0, le=(1 << 22) - 1)]
"""Above `TRANSACTION_OPERATIONS_MAX`, and what a queue entry has room for."""


class Envelope(msgspec.Struct, array_like=True, frozen=True):
    """Properties of one record that managers add.

    Times in microseconds since the epoch; `marks` are the bits above;
    `ordinal` its place in its transaction, from 1, and `following` how many come behind it there,
    `FOLLOWING_MAX` for that many or more. With `MARK_LARGE`, `following` is how many messages the
    transaction sent to the queue, each large one counted once. Between managers only, `number` is
    its number in the stream, `move_count` how many managers have forwarded it, `remaining_us` the
    time until it expires in its queue and `reaching_us` the time it has left to get there (-1: for
    ever). A value out of bounds has no place in a queue entry, and breaks the protocol.
    """

    lookup_id: _Number
    length: _Word
    crc: _Word
    transaction: _Number
    sent_us: _Time
    arrived_us: _Time
    marks: _Byte
    message_class: _Short = 0
    abort_count: _Word = 0
    move_count: _Word = 0
    ordinal: _Ordinal = 0
    number: _Number = 0
    remaining_us: _Left = -1
    reaching_us: _Left = -1
    following: _Word = 0


class Messages(Head, frozen=True):
    """Envelopes, and in the body their records one after another."""

    code = 41
    pages = True
    envelopes: list[Envelope]


class Settle(Head, frozen=True):
    """Everything available at or below a lookup id, and above `after`, is received.

    `born` is the birth number of the queue in which the position was read; 0 if it is not known.
    With `plain`, large messages stay. Answered by Done.
    """

    code = 42
    queue: int
    upto: int
    transaction: int
    born: int = 0
    after: int = 0
    plain: bool = False


class Move(Head, frozen=True):
    """Move a message between a queue and its sub-queues (or two of them). Answered by Done.

    With transaction 0 at once; else at commit, and until then nobody sees it. `guarded` refuses a
    part of a large message, which would lack it from then on. With `message_id` it has to be that
    message that is at the position.
    """

    code = 43
    queue: int
    lookup_id: int
    target: int
    transaction: int
    guarded: bool = True
    message_id: str = ""


class MoveMessages(Head, frozen=True):
    """Move messages to any queue of this manager at once, all or none. Answered by Done.

    The position of a part stands for its whole large message. A message of a journal or dead-letter
    queue joins the target as if it were sent now, for an outgoing queue to be delivered. `target` 0
    drops messages of such a queue. `number` is one of the client's, whose outcome can be asked for.
    Done counts a large message once.
    """

    code = 49
    queue: int
    lookup_ids: list[int]
    target: int
    number: int


class Reject(Head, frozen=True):
    """Mark a message that the transaction has received as rejected. Answered by Done.

    With `message_id` it has to be that message that is at the position.
    """

    code = 44
    queue: int
    lookup_id: int
    transaction: int
    message_id: str = ""


class ReceiveTransaction(Head, frozen=True):
    """Take all messages that one transaction sent to a queue, once no more of it can come.

    Answered by TransactionMessages, or Failed when `timeout` seconds passed.
    """

    code = 45
    queue: int
    transaction: int
    timeout: float | None


class TransactionMessages(Head, frozen=True):
    """The messages of one transaction, records in the body; `missing` are ordinals from 1.

    Messages that do not fit one frame are left out at the end (`left_out` envelopes without
    records): the transaction holds them all the same, and the client reads them with ReadPart.
    """

    code = 46
    pages = True
    envelopes: list[Envelope]
    left_out: list[Envelope]
    missing: list[int]


class Prepare(Head, frozen=True):
    """First phase: the transaction survives a crash and waits to be settled. Answered by Done."""

    code = 36
    transaction: int
    sends: int


class SettlePrepared(Head, frozen=True):
    """Second phase, from any connection: commit or abort a prepared one. Answered by Done."""

    code = 37
    transaction_id: str
    commit: bool


class ListPrepared(Head, frozen=True):
    """Answered by PreparedList."""

    code = 38


class PreparedList(Head, frozen=True):
    """Ids of the transactions that are prepared and not settled, and transactions still open."""

    code = 39
    pages = True
    transaction_ids: list[str]
    open: list[OpenTransactionInfo] = msgspec.field(default_factory=list)
