"""Frames about large messages and ranges of records (codes 50 to 59), uploads (100 to 108)."""

from __future__ import annotations

import msgspec

from dray.wire.head import Head, MissingPart
from dray.wire.message_frames import Envelope
from dray.wire.selections import SelectFirst, SelectLarge


class LargeReceive(Head, frozen=True):
    """Take, or look at, the first large message that is whole or surely holed.

    Answered by LargeFound, LargeTaken or Failed.
    """

    code = 50
    queue: int
    transaction: int
    timeout: float | None
    select: SelectLarge = SelectFirst()
    peek: bool = False
    status_queue: int = 0
    """The queue, by number, that says what is to become of each large message; 0 for none."""
    reject: bool = False
    """Take one with a hole, by its sequence, to reject what is there of it; answered by Done."""
    repair: bool = False
    """Let a hole be filled from what its source has kept, and wait for that."""
    count: int = 1
    """Large messages at most. If it is above 1 the answer is LargeTaken, and each message is held
    by a transaction of its own: their numbers go up from `transaction`."""


class PartAt(msgspec.Struct, array_like=True, frozen=True):
    """One fragment: where it is in the queue, the length and CRC32C of its record."""

    lookup_id: int
    length: int
    crc: int


class LargeFound(Head, frozen=True):
    """A large message; in the body its header's record, then its trailer's.

    `missing` is empty, or the holes of one that was asked for by peek or list.
    """

    code = 51
    pages = True
    sequence: int
    source: str
    header: Envelope
    trailer: Envelope | None
    parts: list[PartAt]
    missing: list[MissingPart] = msgspec.field(default_factory=list)


class LargeAt(msgspec.Struct, array_like=True, frozen=True):
    """One large message of LargeTaken."""

    sequence: int
    source: str
    header: Envelope
    trailer: Envelope
    parts: list[PartAt]


class LargeTaken(Head, frozen=True):
    """Large messages that were taken together.

    If they are `whole`, the body has all records of each: header, fragments and trailer. If not, it
    is one message, of which the body has header and trailer.
    """

    code = 58
    pages = True
    found: list[LargeAt]
    whole: bool


class LargeList(Head, frozen=True):
    """Ask for the large messages from a position on. Answered by LargeListed.

    The list ends before the first that is still in flight and, without `held`, before the first
    that a transaction holds.
    """

    code = 52
    queue: int
    after: int
    max_messages: int
    max_bytes: int = 0
    held: bool = False


class LargeEntry(msgspec.Struct, array_like=True, frozen=True):
    """One large message of a list: position of header and of its last part, and what is missing.

    `transaction_size` is how many messages its transaction sent to the queue, a large one counted
    once; 0 if there are `FOLLOWING_MAX` or more.
    """

    first_lookup_id: int
    last_lookup_id: int
    sequence: int
    source: str
    fragment_count: int
    size: int
    missing: list[MissingPart]
    transaction_size: int = 0


class LargeListed(Head, frozen=True):
    """Large messages in queue order."""

    code = 53
    pages = True
    entries: list[LargeEntry]


class ReadPart(Head, frozen=True):
    """Ask for a range of one record, by position. Answered by Range.

    The message must be in the queue, available or held by the caller's transaction.
    """

    code = 54
    queue: int
    lookup_id: int
    offset: int
    length: int


class PartDamaged(Head, frozen=True):
    """Say that the record of a part that the caller holds does not fit its CRC32C.

    Answered by Done: 1 if so it is, and then the part is put aside; 0 if it is whole in the heap.
    """

    code = 56
    queue: int
    lookup_id: int


class LargeMove(Head, frozen=True):
    """Move a large message that the caller holds to another queue of its family, all of it at once.

    It moves whatever becomes of the transaction. `lookup_id` is the header's; what `status_queue`
    says of the message is taken back. `unreadable`: its header or trailer mean nothing to the
    caller. Answered by Done: how many parts were moved, 0 for a message that is not held.
    """

    code = 57
    queue: int
    lookup_id: int
    target: int
    status_queue: int
    unreadable: bool = False


class Range(Head, frozen=True):
    """The bytes asked for, in the body."""

    code = 55


class UploadBegin(Head, frozen=True):
    """Begin an upload that can be resumed, in a queue. Answered by UploadState.

    `number` is that of the large message's header and of the transaction; `source` is what the
    client wants to know again of where the body comes from. Room for `reserve` bytes is set aside,
    in records of at most `longest` each; 0 if nobody knows.
    """

    code = 100
    queue: int
    number: int
    reserve: int
    source: bytes
    longest: int = 0


class UploadResume(Head, frozen=True):
    """Take an upload over. Answered by UploadState."""

    code = 101
    sequence_id: str


class UploadState(Head, frozen=True):
    """The state of an upload: "open", or what became of it (a `TransactionStatus`).

    `parts` records are durable, `size` bytes of the body are in them, `digest` is of those bytes.
    """

    code = 102
    status: str
    sequence_id: str = ""
    parts: int = 0
    size: int = 0
    digest: bytes = b""
    source: bytes = b""


class UploadMark(Head, frozen=True):
    """Make durable what was sent of an upload: `parts` records in all, `size` bytes of the body.

    Answered only if it fails.
    """

    code = 103
    number: int
    parts: int
    size: int
    digest: bytes


class UploadDrop(Head, frozen=True):
    """Give an unfinished upload up. Answered by Done."""

    code = 104
    sequence_id: str


class UploadRead(Head, frozen=True):
    """Ask for a marked record of an upload that the caller has, by its place from 0: UploadPart.

    A program that sends on for others takes the digest of the body so far anew from the records.
    """

    code = 107
    number: int
    part: int


class UploadPart(Head, frozen=True):
    """A record of an upload, in the body, and its CRC32C."""

    code = 108
    crc: int


class ListUploads(Head, frozen=True):
    """Ask what is unfinished in a queue, or in all with 0. Answered by UploadList."""

    code = 105
    queue: int


class UploadIs(msgspec.Struct, array_like=True, frozen=True):
    """One unfinished upload of a list; times in microseconds since the epoch."""

    sequence_id: str
    size: int
    begun_us: int
    used_us: int
    source: bytes
    queue: str


class UploadList(Head, frozen=True):
    """The unfinished uploads that were asked for, the oldest first."""

    code = 106
    pages = True
    uploads: list[UploadIs]
