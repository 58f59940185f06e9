"""Frames: what is said between clients and managers, and between managers.

     0        4   5    6     8            12           16           20           24
     +--------+---+----+-----+------------+------------+------------+------------+---- - - --- - -
     |"DRAY"  | v | ty |  0  | request id | head bytes | body bytes | CRC32C     | head | body
     +--------+---+----+-----+------------+------------+------------+------------+---- - - --- - -

Heads are MessagePack arrays. v version (1), ty frame type, all integers little-endian and unsigned.
The CRC32C covers bytes 0..20 and the head. The body is message records (or a range of one); their
CRC32Cs travel in the head, so a body can be sent from a heap file by the kernel without being read.
Request id 0 wants no answer. Never change the magic, nor that bytes 4..5 give the version.

Every head names its type code; `docs/formats/wire.md` tells each exchange as a story. Here are the
heads that open and end a conversation or an answer; those of one subject are in a module of theirs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple, cast

import msgspec

from dray.checksum import crc32c
from dray.errors import DrayError, InvalidArgument, ProtocolError
from dray.model.ids import Incarnation
from dray.model.limits import FIRST_HEAD_BYTES_MAX, FRAME_BODY_BYTES_MAX
from dray.wire import (
    backup_frames,
    batch_frames,
    file_frames,
    large_frames,
    message_frames,
    peer_frames,
    queue_frames,
    range_frames,
    token_frames,
    transfer_frames,
)
from dray.wire.head import Head, MissingPart

MAGIC = b"DRAY"
_TLS_HANDSHAKE = b"\x16\x03"
"""The beginning of every TLS connection: a record of type 22, of version 3.x."""
VERSION = 1
FRAME_HEADER = struct.Struct("<4sBBHIIII")
FRAME_HEADER_BYTES = FRAME_HEADER.size
_CHECKED = struct.Struct("<4sBBHIII")
_CRC_AT = 20


class Hello(Head, frozen=True):
    """First frame of either kind of caller: `role` is "client" or "manager".

    A manager says the `incarnations` of its store, oldest first, as pairs of number and age
    (`delivery/lineage.py`), its `public` key, and a number that no other connection has (`once`,
    `delivery/keys.py`). By `copy_proof` a copy of its own store knows it.
    """

    code = 1
    role: str
    manager_id: str = ""
    name: str = ""
    incarnations: list[Incarnation] = msgspec.field(default_factory=list)
    public: bytes = b""
    once: bytes = b""
    token: str = ""
    """It proves the caller (`model/tokens.py`); it stands in no log and no error."""
    copy_proof: bytes = b""
    caller: str = ""
    """For which caller the owner of the queue manager acts, with that one's rights."""


class Welcome(Head, frozen=True):
    """The answer to Hello: who this is, and message numbers leased to a client.

    `takes_files`: where the connection can carry descriptors, they are understood. A manager that
    calls is told the `public` key, a number that no other connection has (`once`), and gets the
    `proof` that the key is this manager's.
    """

    code = 2
    manager_id: str
    name: str
    version: str
    session: int
    first_number: int = 0
    number_count: int = 0
    takes_files: bool = False
    public: bytes = b""
    once: bytes = b""
    proof: bytes = b""


class Lease(Head, frozen=True):
    """Ask for more message numbers; answered by Leased."""

    code = 3


class Leased(Head, frozen=True):
    """Numbers `first_number` and the `number_count - 1` after it are the asker's for ever."""

    code = 4
    first_number: int
    number_count: int


class Done(Head, frozen=True):
    """The request is done and durable; `count` of what it did."""

    code = 5
    count: int = 0


FieldValue = None | bool | int | float | str | list[MissingPart]
"""A field of an error. Nothing in a frame is of any type whatever: a map with chosen keys, or
millions of empty lists, would cost its reader seconds."""


class Failed(Head, frozen=True):
    """The request failed: an error of `dray.errors` by code, its sentence and fields."""

    code = 6
    pages = True
    error: str
    sentence: str
    fields: dict[str, FieldValue] = msgspec.field(default_factory=dict)


class Unfit(Failed, frozen=True):
    """Stands for the head of a client's frame that came whole and has a value of a wrong type.

    It is the answer to that frame, which is refused; whatever follows can be read all the same.
    """


class Cut(Head, frozen=True):
    """In the body the beginning of another frame; the body of that one comes in Continuations.

    So a long frame does not hold up the others on the connection. A channel carries one at a time.
    """

    code = 7
    channel: int


class Continuation(Head, frozen=True):
    """In the body the next bytes of the frame that was cut on this channel."""

    code = 8
    channel: int


FRAME_TYPES: dict[int, type[Head]] = {cls.code: cls for cls in Head.__subclasses__()}
"""By code. This module loads every module of heads, so that none is missing."""
FIRST = frozenset({Hello.code})
"""The frames that a caller may say first."""
_HEAD_BYTES_MAX = {code: cls.bytes_max() for code, cls in FRAME_TYPES.items()}
_DECODERS = {code: msgspec.msgpack.Decoder(cls) for code, cls in FRAME_TYPES.items()}
_encode_head = msgspec.msgpack.Encoder().encode


class FrameHeader(NamedTuple):
    """The fixed 24 bytes, read and within bounds."""

    type: int
    request_id: int
    head_bytes: int
    body_bytes: int
    crc: int


_header_of: Callable[[tuple[int, ...]], FrameHeader] = partial(tuple.__new__, FrameHeader)


def encode_frame(head: Head, request_id: int = 0, body_bytes: int = 0) -> bytes:
    """Everything of a frame but its body, which the caller sends right after.

    Raises `InvalidArgument` for what has no place in MessagePack, `ProtocolError` for what is too
    long.
    """
    try:
        encoded = _encode_head(head)
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        # Integers beyond 64 bits, half characters: what a caller put into it.
        name = type(head).__name__
        raise InvalidArgument(f"{name} has a value that cannot be sent", argument=name) from error
    if len(encoded) > _HEAD_BYTES_MAX[head.code] or body_bytes > FRAME_BODY_BYTES_MAX:
        raise ProtocolError(f"{type(head).__name__} is over the bounds of a frame")
    checked = _CHECKED.pack(MAGIC, VERSION, head.code, 0, request_id, len(encoded), body_bytes)
    crc = crc32c(encoded, crc32c(checked))
    return b"".join((checked, crc.to_bytes(4, "little"), encoded))


def read_again(head: Head, body_bytes: int = 0) -> Head:
    """Give a head as the other end of a connection reads it.

    Raises as `encode_frame` does, and `InvalidArgument` for a wrong type.
    """
    return check_values(head, encode_frame(head, 0, body_bytes))


def check_values(head: Head, encoded: bytes) -> Head:
    """Read again what `encode_frame` wrote of a head; `InvalidArgument` for a wrong type.

    So whoever made the call hears of it, and not the other end, which would hang up.
    """
    try:
        again: Head = _DECODERS[head.code].decode(memoryview(encoded)[FRAME_HEADER_BYTES:])
    except (msgspec.MsgspecError, ValueError) as error:
        raise _misfit(type(head), error) from error
    return again


def read_frame_header(view: bytes | bytearray | memoryview, at: int = 0) -> FrameHeader:
    """Read 24 bytes from `at` on; raises `ProtocolError` if no frame of ours begins so."""
    magic, version, kind, zero, request_id, head_bytes, body_bytes, crc = FRAME_HEADER.unpack_from(
        view, at
    )
    if magic[:2] == _TLS_HANDSHAKE:
        raise ProtocolError(
            "the other end began a TLS handshake, but this port does not use TLS; call it with"
            " dray:// instead of drays://"
        )
    if magic != MAGIC:
        raise ProtocolError(f"the other end does not speak Dray: it began with {bytes(magic)!r}")
    if version != VERSION:
        raise ProtocolError(
            f"the other end speaks version {version}, and this end version {VERSION}"
        )
    head_bytes_max = _HEAD_BYTES_MAX.get(kind)
    if head_bytes_max is None or zero:
        raise ProtocolError(f"there is no frame of type {kind}")
    if head_bytes > head_bytes_max or body_bytes > FRAME_BODY_BYTES_MAX:
        raise ProtocolError("a frame is longer than the limit")
    return _header_of((kind, request_id, head_bytes, body_bytes, crc))


def check_expected(header: FrameHeader, expected: AbstractSet[int] | None) -> None:
    """Raise `ProtocolError`, before the head is read, for a frame that may not come now."""
    kind, _, head_bytes, body_bytes, _ = header
    if expected is None:
        return
    if kind not in expected:
        name = FRAME_TYPES[kind].__name__
        if expected == FIRST:
            raise ProtocolError(f"the conversation began with {name}, not with Hello")
        raise ProtocolError(f"a caller may not send {name} here")
    if expected == FIRST and (head_bytes > FIRST_HEAD_BYTES_MAX or body_bytes):
        raise ProtocolError("a frame is longer than the limit")


def decode_head(header: FrameHeader, encoded: memoryview, *, lenient: bool = False) -> Head:
    """Check the CRC32C of what `encode_frame` gave, and read the head; raises `ProtocolError`.

    If it is `lenient`, a value of a wrong type gives `Unfit`: the frame itself is whole.
    """
    head = encoded[FRAME_HEADER_BYTES:]
    if crc32c(head, crc32c(encoded[:_CRC_AT])) != header.crc:
        raise ProtocolError("a frame was damaged in transit: its CRC32C does not match")
    try:
        return _DECODERS[header.type].decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        kind = FRAME_TYPES[header.type]
        name = kind.__name__
        if lenient and kind not in {Cut, Continuation} and not kind.with_file:
            misfit = _misfit(kind, error)
            return Unfit(*_told(misfit))
        raise ProtocolError(f"the head of a {name} frame cannot be read: {error}") from error


def _misfit(kind: type[Head], error: Exception) -> InvalidArgument:
    """Name the field that a decoder has complained of."""
    at = re.search(r"`\$\[(\d+)\]", str(error))
    fields = kind.__struct_fields__
    name = fields[int(at[1])] if at is not None else kind.__name__
    return InvalidArgument(
        f"{name} of {kind.__name__} has a value of a wrong type, or out of bounds", argument=name
    )


def failure(error: DrayError) -> Failed:
    """The frame that carries an error."""
    return Failed(*_told(error))


def _told(error: DrayError) -> tuple[str, str, dict[str, FieldValue]]:
    return error.code, str(error), cast("dict[str, FieldValue]", error.fields)
