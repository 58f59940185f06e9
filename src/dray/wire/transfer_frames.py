"""Frames and messages of file transfers (frame codes 80 to 82; docs/formats/transfer.md).

Two programs speak to each other in *messages*: a MessagePack array whose first element says which
one it is. A message travels in a `Post` frame, a fragment's bytes as the frame's body, either over
a connection between the two programs or through queue managers, which pass it on unread from *box*
to box. A box is a name under which a program can be reached while it is connected; what is posted
to a box that nobody has, or that takes too slowly, is dropped: the protocol makes up for it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from dray.errors import ProtocolError
from dray.model.limits import TRANSFER_KEY_CHARACTERS_MAX
from dray.wire.head import Head

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=TRANSFER_KEY_CHARACTERS_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class AttachBox(Head, frozen=True):
    """Have what is posted to `box` come over this connection, or with `attached` false no longer.

    `queue` is the queue through which both ends found each other: the box is known at its queue
    manager and at those on the way to it. Answered by Done.
    """

    code = 80
    box: str
    queue: str
    attached: bool = True


class Post(Head, frozen=True):
    """Pass `message` and the body on to `box`, at the queue manager of `queue`. No answer."""

    code = 81
    box: str
    message: bytes
    queue: str = ""


class Credit(Head, frozen=True):
    """So many bytes of what was posted have been taken: as many more may come. No answer."""

    code = 82
    size: int


class Handshake(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Consumer: this is consumer `key`, and it has everything before fragment `expected`.

    `resume` lifts a suspension, whoever asked for it.
    """

    key: Key
    expected: _Count
    resume: bool = False


class Acked(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Consumer: everything before fragment `upto` is written. `round` as the last Joined said."""

    key: Key
    round: _Count
    upto: _Count


class Wanted(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """Consumer: send from fragment `start` on; everything before it is written."""

    key: Key
    round: _Count
    start: _Count


class Verified(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Consumer: the file is whole, its digest fits, and it is there under its name."""

    key: Key


class Spoiled(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """Consumer: everything came and the digest does not fit."""

    key: Key


class Suspended(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """Either: no more until one of the two resumes."""

    key: Key


class Resumed(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """Producer: go on."""

    key: Key


class Cancelled(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """Either: it is over and nothing of it is kept. `error` and `sentence` say why, if anything."""

    key: Key
    error: str = ""
    sentence: str = ""


class Joined(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """Producer: you are consumer `consumer_id`; ask for fragment `start` and what follows.

    The consumer sends `round` with every later message about fragments; messages from before, still
    in flight, are known by their old round. `direct` is host, port and a token that opens one
    connection there; with a `certificate` (DER) it goes through TLS, to whom shows that one.
    """

    key: Key
    consumer_id: str
    round: _Count
    start: _Count
    direct: tuple[str, int, str] | None = None
    certificate: bytes = b""


class JoinRefused(msgspec.Struct, array_like=True, tag=10, frozen=True):
    """Producer: you cannot have it."""

    key: Key
    sentence: str


class Fragment(msgspec.Struct, array_like=True, tag=11, frozen=True):
    """Producer: fragment `number`, whose bytes are the body; `crc` is their CRC32C."""

    key: Key
    number: _Count
    crc: _Count


class Farewell(msgspec.Struct, array_like=True, tag=12, frozen=True):
    """Producer: it is known, durably, that you have it all. You may forget the transfer."""

    key: Key


class DirectOpening(msgspec.Struct, array_like=True, tag=13, frozen=True):
    """Consumer, first on a connection of its own to the producer: the token for it."""

    key: Key
    token: str


AnyMessage = (
    Handshake
    | Acked
    | Wanted
    | Verified
    | Spoiled
    | Suspended
    | Resumed
    | Cancelled
    | Joined
    | JoinRefused
    | Fragment
    | Farewell
    | DirectOpening
)

_POST_BYTES = 256
"""Bytes that a post counts besides its message and body: it has a head and a place in a list."""


def size_of_post(head: Post, body: memoryview) -> int:
    """Credits that a post takes, at both ends of a connection alike."""
    return _POST_BYTES + len(head.message) + len(body)


encode_message = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyMessage).decode


def decode_message(data: bytes) -> AnyMessage:
    """Read a message; raises `ProtocolError`."""
    try:
        message: AnyMessage = _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a message of a file transfer cannot be read: {error}") from error
    return message
