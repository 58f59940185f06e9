"""The message record: one message as bytes, the same on every wire and in every heap file.

Made by the sending client, never changed afterwards, so that one CRC32C, taken by the sender,
vouches for it until the last receiver. Values that managers add (positions, times, transaction
marks) travel beside it, in an `Envelope`. Little-endian:

     0        4   5   6   7   8           12          16                               32
     +--------+---+---+---+---+-----------+-----------+--------------------------------+
     |"DMSG"  | v | p | q | f | prop len  | body len  | source manager id, 16 bytes    |
     +--------+---+---+---+---+-----+-----+-----------+----------------+------+--------+
     | number, 8 bytes | app_specific | ack  | 0  | sequence, 8 bytes  | count | zero  |
     +-----------------+--------------+------+----+--------------------+-------+-------+
     32                40             44     46   48                   56      60      64
     then the properties (a MessagePack array, absent if all are defaults), then the body.

v version (1) p `Part` q priority f flags: 1 recoverable, 2 dead letter, 4 journal, 8 timed, 16 no
dead letter (neither 2 nor 16: only if a destination refuses it; never both) app_specific: signed.
In a fragment it is the fragment number, in header and trailer their mark. sequence: in every part
of a large message the number of its header; 0 in plain messages. count: in a trailer the number of
fragments, in a compressed fragment its plain bytes; else 0. Never change the place of the version
byte, nor that bytes 8..16 give the record's length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, NamedTuple

import msgspec

from dray.errors import InvalidArgument, MessageTooLarge, Misuse, ProtocolError
from dray.model.arguments import no_sense, shown
from dray.model.classes import Acknowledge, Part
from dray.model.limits import (
    ACKNOWLEDGE_MAX,
    APP_SPECIFIC_MAX,
    APP_SPECIFIC_MIN,
    CORRELATION_ID_CHARACTERS_MAX,
    LABEL_CHARACTERS_MAX,
    MESSAGE_BYTES_MAX,
    NAMES_REMEMBERED,
    PRIORITY_MAX,
    PROPERTIES_BYTES_MAX,
    TIME_TO_LIVE_S_MAX,
    TRACEPARENT_CHARACTERS_MAX,
)
from dray.model.message import Buffer, Message

MAGIC = b"DMSG"
VERSION = 1
RECORD_HEADER = struct.Struct("<4sBBBBII16sQiHHQII")
HEADER_BYTES = RECORD_HEADER.size

FLAG_RECOVERABLE = 1
FLAG_DEAD_LETTER = 2
FLAG_JOURNAL = 4
FLAG_TIMED = 8
FLAG_NO_DEAD_LETTER = 16
_FLAGS_KNOWN = FLAG_RECOVERABLE | FLAG_DEAD_LETTER | FLAG_JOURNAL | FLAG_TIMED | FLAG_NO_DEAD_LETTER
_YES_AND_NO = FLAG_DEAD_LETTER | FLAG_NO_DEAD_LETTER
FLAGS_POSSIBLE = frozenset(
    flags for flags in range(_FLAGS_KNOWN + 1) if flags & _YES_AND_NO != _YES_AND_NO
)
_FLAG_COPIES_AT = 1
COPY_DEAD_LETTER = FLAG_DEAD_LETTER >> _FLAG_COPIES_AT
COPY_JOURNAL = FLAG_JOURNAL >> _FLAG_COPIES_AT
_COPIES = COPY_DEAD_LETTER | COPY_JOURNAL
COPIES_BY_FLAGS = tuple(flags >> _FLAG_COPIES_AT & _COPIES for flags in range(_FLAGS_KNOWN + 1))
"""`RecordHeader.copies` of a record without acknowledgments, by its flags."""
WANTS_ACKNOWLEDGMENTS = 4
"""Notifications and copies that the sender asks for, as bits of `RecordHeader.copies`."""


class RecordHeader(NamedTuple):
    """The fixed 64 bytes, read."""

    part: int
    priority: int
    flags: int
    properties_bytes: int
    body_bytes: int
    source: bytes
    number: int
    app_specific: int
    acknowledge: int
    sequence: int
    fragment_count: int

    @property
    def record_bytes(self) -> int:
        """Length of the whole record."""
        return HEADER_BYTES + self.properties_bytes + self.body_bytes

    @property
    def copies(self) -> int:
        """Notifications and copies that the sender asks for: the bits above."""
        wishes = WANTS_ACKNOWLEDGMENTS if self.acknowledge else 0
        return COPIES_BY_FLAGS[self.flags] | wishes


_Label = Annotated[str, msgspec.Meta(max_length=LABEL_CHARACTERS_MAX)]
_CorrelationId = Annotated[str, msgspec.Meta(max_length=CORRELATION_ID_CHARACTERS_MAX)]
_TraceParent = Annotated[str, msgspec.Meta(max_length=TRACEPARENT_CHARACTERS_MAX)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=TIME_TO_LIVE_S_MAX)]


class _Plain(msgspec.Struct, frozen=True, array_like=True):
    """The properties of a message of which no copy is to be kept."""

    label: _Label = ""
    correlation_id: _CorrelationId | None = None
    extension: bytes = b""
    time_to_reach_queue: _Seconds | None = None
    time_to_be_received: _Seconds | None = None
    administration_queue: str | None = None
    response_queue: str | None = None
    traceparent: _TraceParent | None = None


class Properties(_Plain, frozen=True, array_like=True):
    """Properties of a message besides the fixed header. Bounds hold for what is read.

    A message nobody can read would stand in its queue, or in the way of a stream, for ever; so
    sender and queue manager both read what they are given. `destination` is the queue as its
    sender named it, noted only where a copy may be kept, in a queue of another name.
    """

    destination: str | None = None


_ADDRESS = "the name or address of a queue, or None"
_DURATION = f"a number of seconds from 0 to {TIME_TO_LIVE_S_MAX}, or None"
_WHAT_IT_IS = {
    "label": f"Unicode text of at most {LABEL_CHARACTERS_MAX} characters",
    "correlation_id": (
        f"Unicode text of at most {CORRELATION_ID_CHARACTERS_MAX} characters, or None"
    ),
    "extension": "bytes",
    "time_to_reach_queue": _DURATION,
    "time_to_be_received": _DURATION,
    "administration_queue": _ADDRESS,
    "response_queue": _ADDRESS,
    "traceparent": f"Unicode text of at most {TRACEPARENT_CHARACTERS_MAX} characters, or None",
    "destination": _ADDRESS,
}
_DEFAULTS = Properties()
_NOTHING_SAID = _Plain()
_PART_MAX = int(Part.TRAILER)
_ACKNOWLEDGES = tuple(map(Acknowledge, range(ACKNOWLEDGE_MAX + 1)))
_header_of: Callable[[tuple[object, ...]], RecordHeader] = partial(tuple.__new__, RecordHeader)
"""Without a call of a Python function, of which every message would pay for one."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Properties).decode
_ALONE = _encode(_DEFAULTS)[:-1]
"""The first bytes of properties with a destination and nothing else: those of most that travel."""
_REMEMBERED_BYTES_MAX = 512


class PartMark(NamedTuple):
    """The large message of which a record is a part, and its number; the default is none."""

    part: Part = Part.PLAIN
    sequence: int = 0
    fragment_count: int = 0


PLAIN = PartMark()


def encode_record(
    message: Message, source: bytes, number: int, mark: PartMark = PLAIN
) -> tuple[bytes, Buffer]:
    """Give a record as two buffers, head and body, so that the body is not copied.

    Raises `MessageTooLarge` and, for properties out of bounds, `Misuse`.
    """
    properties = _encode_properties(message)
    body: Buffer = message.body
    body_bytes = len(body) if type(body) is bytes else message.body_size
    size = HEADER_BYTES + len(properties) + body_bytes
    if size > MESSAGE_BYTES_MAX:
        raise too_large(size)
    flags = _flags(message)
    try:
        header = RECORD_HEADER.pack(
            MAGIC,
            VERSION,
            mark.part,
            message.priority,
            flags,
            len(properties),
            body_bytes,
            source,
            number,
            message.app_specific,
            message.acknowledge,
            0,
            mark.sequence,
            mark.fragment_count,
            0,
        )
    except struct.error as error:
        raise _out_of_bounds(message) from error
    if message.priority > PRIORITY_MAX or message.acknowledge > ACKNOWLEDGE_MAX:
        raise _out_of_bounds(message)
    return header + properties, body


def read_header(view: Buffer, offset: int = 0) -> RecordHeader:
    """Read the fixed part at `offset`; raises `ProtocolError` if it is none."""
    try:
        (
            magic, version, part, priority, flags, properties, body, source, number,
            app_specific, acknowledge, zero, sequence, count, zeros,
        ) = RECORD_HEADER.unpack_from(view, offset)  # fmt: skip
    except struct.error as error:
        raise ProtocolError(f"a message record is truncated: {error}") from error
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"no message record of version {VERSION} begins here")
    if part > _PART_MAX or priority > PRIORITY_MAX or flags not in FLAGS_POSSIBLE or zero or zeros:
        raise ProtocolError("a message record has a header field out of bounds")
    if properties > PROPERTIES_BYTES_MAX or HEADER_BYTES + properties + body > MESSAGE_BYTES_MAX:
        raise ProtocolError("a message record is longer than the limit")
    return _header_of(
        (
            part, priority, flags, properties, body, source, number, app_specific, acknowledge,
            sequence, count,
        )
    )  # fmt: skip


def read_properties(view: Buffer, header: RecordHeader, offset: int = 0) -> Properties:
    """Read the properties of the record at `offset`; raises `ProtocolError`."""
    if not header.properties_bytes:
        return _DEFAULTS
    start = offset + HEADER_BYTES
    said = view[start : start + header.properties_bytes]
    try:
        if header.properties_bytes <= _REMEMBERED_BYTES_MAX:
            said = bytes(said)
            if said.startswith(_ALONE):
                return _read_destination(said)
        return _decode(said)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a message record has unreadable properties: {error}") from error


def _encode_properties(message: Message) -> bytes:
    properties = _Plain(
        message.label,
        message.correlation_id,
        message.extension,
        message.time_to_reach_queue,
        message.time_to_be_received,
        message.administration_queue,
        message.response_queue,
        message.traceparent,
    )
    if message.destination and (
        message.use_dead_letter_queue is not False or message.use_journal_queue
    ):
        if properties == _NOTHING_SAID and isinstance(message.destination, str):
            return _destination_alone(message.destination)
        said = msgspec.structs.asdict(properties)
        properties = Properties(**said, destination=message.destination)
    if properties == _NOTHING_SAID:
        return b""
    return _encoded(properties, message)


@lru_cache(NAMES_REMEMBERED)
def _destination_alone(destination: str) -> bytes:
    """The properties of most messages to other managers, which are the same for each."""
    properties = Properties(destination=destination)
    return _encoded(properties, properties)


def too_large(size: int) -> MessageTooLarge:
    """The error for a plain message of `size` bytes with its properties."""
    return MessageTooLarge(
        f"a message of {size} bytes with its properties is over the limit of"
        f" {MESSAGE_BYTES_MAX} bytes; send it with LargeMessageQueue",
        size=size,
        limit=MESSAGE_BYTES_MAX,
    )


@lru_cache(NAMES_REMEMBERED)
def _read_destination(said: bytes) -> Properties:
    return _decode(said)


def _encoded(properties: _Plain, said: Message | Properties) -> bytes:
    try:
        encoded = _encode(properties)
        if len(encoded) <= PROPERTIES_BYTES_MAX:
            _decode(encoded)
    except (msgspec.MsgspecError, OverflowError, TypeError, UnicodeEncodeError) as error:
        name = _unsendable(properties)
        raise no_sense(name, _WHAT_IT_IS[name], getattr(said, name)) from error
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge(
            f"the properties of a message take {len(encoded)} bytes, over {PROPERTIES_BYTES_MAX};"
            " put large data into the body, which LargeMessageQueue sends at any size",
            size=len(encoded),
            limit=PROPERTIES_BYTES_MAX,
        )
    return encoded


def _unsendable(properties: _Plain) -> str:
    """The one that keeps a message from being sent."""
    return next(
        name
        for name in properties.__struct_fields__
        if not _is_sendable(Properties(**{name: getattr(properties, name)}))
    )


def _is_sendable(properties: Properties) -> bool:
    try:
        _decode(_encode(properties))
    except (msgspec.MsgspecError, OverflowError, TypeError, UnicodeEncodeError):
        return False
    return True


def _out_of_bounds(message: Message) -> InvalidArgument:
    """The number that keeps a message from being sent."""
    bounds = {
        "priority": (0, PRIORITY_MAX),
        "app_specific": (APP_SPECIFIC_MIN, APP_SPECIFIC_MAX),
        "acknowledge": (0, ACKNOWLEDGE_MAX),
    }
    name, value, least, most = next(
        (name, value, least, most)
        for name, (least, most) in bounds.items()
        for value in [getattr(message, name)]
        if not isinstance(value, int) or not least <= value <= most
    )
    return no_sense(name, f"a whole number from {least} to {most}", value)


def _flags(message: Message) -> int:
    """The choices of a message as bits; raises `Misuse` for what is neither yes nor no."""
    flags = 0
    # Objects, because a caller without types may have put anything there.
    recoverable: object = message.recoverable
    dead_letter: object = message.use_dead_letter_queue
    journal: object = message.use_journal_queue
    if recoverable is None or recoverable is True:
        flags = FLAG_RECOVERABLE
    elif recoverable is not False:
        raise Misuse(f"recoverable is True, False or None, not {shown(recoverable)}")
    if dead_letter is True:
        flags |= FLAG_DEAD_LETTER
    elif dead_letter is False:
        flags |= FLAG_NO_DEAD_LETTER
    elif dead_letter is not None:
        raise Misuse(f"use_dead_letter_queue is True, False or None, not {shown(dead_letter)}")
    if journal is True:
        flags |= FLAG_JOURNAL
    elif journal is not False:
        raise Misuse(f"use_journal_queue is True or False, not {shown(journal)}")
    if message.time_to_reach_queue is not None or message.time_to_be_received is not None:
        flags |= FLAG_TIMED
    return flags


def acknowledge_of(header: RecordHeader) -> Acknowledge:
    """The acknowledgments asked for."""
    return _ACKNOWLEDGES[header.acknowledge & ACKNOWLEDGE_MAX]
