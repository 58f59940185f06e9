"""Frames for readers by position: how far a queue can be read, and what a range holds (110 to 113).

Such a reader takes nothing from the queue. It plans with the first pair of frames, and reads with
the second one, as often as it likes.
"""

from __future__ import annotations

import struct

import msgspec

from dray.wire.head import Head, Receipt

RANGE_ROW = struct.Struct("<QQQQIIIIHBx")
"""One row of `RangeRead`: all that a reader makes columns of, in 52 bytes.

     0           8             16      24        32       36    40      44      48
     +-----------+-------------+-------+---------+--------+-----+-------+-------+
     | lookup id | transaction | sent  | arrived | length | crc | given | place |
     +-------+---+---+-----+---+-------+---------+--------+-----+-------+-------+
     | class | marks | 0 |
     +-------+-------+---+
     48      50      51  52

Little-endian; the fields are those of `Envelope`. length: bytes of the record. given: bytes of it
in the body of this frame. place: the ordinal in the lower 22 bits, and above them `following`.
"""
ROW_ORDINAL_BITS = 22


class MeasureRange(Head, frozen=True):
    """Ask how far a queue can be read behind the position `after`. Answered by RangeMeasured.

    The range ends at `upto`, before the first message that a transaction holds, and where
    `max_messages` or `max_bytes` are reached; 0 is no limit. One message is measured in any case.
    A range with limits ends where all transactions are closed, if there is such a position within
    the limits, or else within four times the limits.
    With `large`, the range is of large messages, by the positions of their first parts, and also
    ends before the first that is not whole and not certain to have a hole. `pieces` asks for the
    range in that many pieces of about the same number of bytes. With `plain`, the range is of
    messages that are no parts of large messages. With `planned`, messages that a transaction holds
    count like the others: the reader reads to `upto` in any case, and wants to divide the work.
    `receipt` is that of the last answer on which the reader relies. If it shows that the store was
    put back since, all queues are born again, and the answer has the new birth number.
    """

    code = 110
    queue: int
    after: int
    upto: int = 0
    max_messages: int = 0
    max_bytes: int = 0
    pieces: int = 0
    large: bool = False
    plain: bool = False
    planned: bool = False
    receipt: Receipt = b""


class RangePiece(msgspec.Struct, array_like=True, frozen=True):
    """One piece: the position that it ends with, its messages, and their bytes.

    The bytes are those of the records; of large messages, those of the payloads.
    """

    upto: int
    messages: int
    size: int


class RangeMeasured(Head, frozen=True):
    """The readable range: the first and the last position, 0 if there is none.

    `born` is the birth number of the queue. `held` is the first position behind `after` that a
    transaction holds, 0 if there is none. `plain` is how many messages of the queue are no parts of
    large messages. `gone` is the last position that a message has left, whatever took it; with
    `large`, the last that the header of a large message has left. Without limits and pieces nothing
    is counted, and `pieces` is empty. One answer counts a bounded number of messages: if `last` is
    below what was asked for, ask again behind it. `receipt` says how far the store had come.
    """

    code = 111
    pages = True
    born: int
    first: int
    last: int
    held: int
    plain: int
    pieces: list[RangePiece]
    gone: int
    receipt: Receipt = b""


class ReadRange(Head, frozen=True):
    """Look at the messages behind `after`, up to `upto`, in order of position.

    Also at those that a transaction holds: a reader that has planned to read them must not pass
    over them. `upto` 0 is no limit. With `plain`, parts of large messages are left out. Answered by
    RangeRead, with as many as fit a frame.
    """

    code = 112
    queue: int
    after: int
    upto: int
    max_messages: int
    max_bytes: int
    bodies: bool = True
    plain: bool = False


class RangeRead(Head, frozen=True):
    """Rows (`RANGE_ROW`), and in the body the record of each; nothing if the range is empty.

    Without bodies each record ends behind its properties. `born` is the birth number of the queue.
    """

    code = 113
    pages = True
    born: int
    rows: bytes
