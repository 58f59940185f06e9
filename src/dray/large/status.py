"""Status messages: what a status queue says of one large message (S0-4, S0-16, semantics 4.4).

    label            complete <queue>;<sub-queue>  or  delete <queue>;<sub-queue>
    correlation id   the sequence id
    app_specific     0 complete, 3 delete: the numbers of the original
    body             a MessagePack array: version, queue, sub-queue, verdict, missing parts

The queue is named, so that many may share one status queue. The sub-queue is the name under which
the parts of one large message belong together: the beginning of the source's id and the header's
number, as long as a sub-queue's name may be. Never change the places of the body's first four
values.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from dray.large.join import SequenceKey
from dray.model.ids import ManagerId, join_id
from dray.model.limits import LABEL_CHARACTERS_MAX
from dray.model.message import Buffer, Message

STATUS_VERSION = 1
_SOURCE_DIGITS = 15


class Verdict(enum.IntEnum):
    """The decision about a large message."""

    COMPLETE = 0
    DELETE = 3


class Status(msgspec.Struct, frozen=True, array_like=True):
    """The body of a status message."""

    version: int
    queue: str
    sub_queue: str
    verdict: Verdict
    source: str
    sequence: int
    missing: list[Any] = []

    @property
    def key(self) -> SequenceKey:
        """The large message that it is about."""
        return SequenceKey(bytes.fromhex(self.source), self.sequence)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Status).decode


def sub_queue_name(key: SequenceKey) -> str:
    """Name the sub-queue that the parts of a large message make up: 32 characters at most."""
    return f"{key.source.hex()[:_SOURCE_DIGITS]}.{key.sequence:x}"


def status_message(queue: str, key: SequenceKey, missing: list[Any]) -> Message:
    """The status message of a large message in `queue` that is whole, or lacks what is missing."""
    verdict = Verdict.DELETE if missing else Verdict.COMPLETE
    source, sub_queue = key.source.hex(), sub_queue_name(key)
    status = Status(STATUS_VERSION, queue, sub_queue, verdict, source, key.sequence, missing)
    label = f"{verdict.name.lower()} {queue};{sub_queue}"
    return Message(
        body=_encode(status),
        label=label[:LABEL_CHARACTERS_MAX],
        correlation_id=join_id(ManagerId(source), key.sequence),
        app_specific=int(verdict),
    )


def read_status(body: Buffer) -> Status | None:
    """Read the body of a status message; None if it is none."""
    try:
        status = _decode(body)
        known = status.version == STATUS_VERSION and len(status.key.source) == len(bytes(16))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return status if known else None
