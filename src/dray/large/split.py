"""A large message as parts: header, fragments 1 to N, trailer, each a message of its own.

The parts are chained by the *sequence*, the number of the header's message: it stands in every
record, and as a message id in the correlation id of all fragments and of the trailer, so that a
reader of single messages sees the chain too (S0-8 to S0-12). Header and trailer carry a control
record with what the application said of its message; `docs/formats/large-message.md` shows it byte
by byte. Nothing here holds a payload byte: callers pass each fragment's and send what comes back.
"""

from __future__ import annotations

from operator import index
from typing import NamedTuple

import msgspec

from dray.errors import ProtocolError
from dray.large.digests import DIGEST_BYTES, DIGEST_KIND_DEFAULT, DIGESTS
from dray.model.arguments import no_sense
from dray.model.classes import Acknowledge, Part
from dray.model.files import FileProperties, encode_file
from dray.model.ids import ManagerId, join_id
from dray.model.limits import FRAGMENT_BYTES_MAX, LABEL_CHARACTERS_MAX
from dray.model.message import Buffer, Message
from dray.wire.record import PartMark, encode_record

CONTROL_VERSION = 1
SIZE_UNKNOWN = -1
"""In a header, when the source does not say how long it is."""
_SOURCE_BYTES = 16
HEADER_MARK_DEFAULT = -9998
TRAILER_MARK_DEFAULT = -9999
_MARK_MIN = -(1 << 31)
_OF_PART = ".part."
"""Between the label of a large message and the number of a part."""


class LargeMessageParameters(msgspec.Struct, frozen=True):
    """The app_specific of the control messages; both below zero and different (S0-9)."""

    header: int = HEADER_MARK_DEFAULT
    trailer: int = TRAILER_MARK_DEFAULT

    def __post_init__(self) -> None:
        marks: dict[str, object] = {"header": self.header, "trailer": self.trailer}
        for name, value in marks.items():
            if type(value) is not int or not _MARK_MIN <= value < 0:
                raise no_sense(name, "a mark below 0 that fits 32 bits", value)
        if self.header == self.trailer:
            raise no_sense("trailer", "another mark than that of the header", self.trailer)


class Control(msgspec.Struct, frozen=True, array_like=True):
    """The body of header and trailer. New fields go to the end; the first three never move."""

    version: int
    fragment_count: int
    app_specific: int
    correlation_id: str | None
    label: str
    size: int
    fragment_size: int
    digest_kind: str
    digest: bytes
    extension: bytes = b""
    response_queue: str | None = None
    administration_queue: str | None = None
    acknowledge: int = 0
    file: tuple[bytes, int, int, int] | None = None
    traceparent: str | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Control).decode


class PartMessage(NamedTuple):
    """One part, ready to be encoded under a number."""

    message: Message
    mark: PartMark


class RoomNeeded(NamedTuple):
    """Bytes that the records of all parts take together, and those of the longest."""

    size: int
    longest: int


def check_fragment_size(size: object) -> int:
    """Give the fragment size to use: 0 means the largest; raises `InvalidArgument`."""
    if type(size) is not int or not 0 <= size <= FRAGMENT_BYTES_MAX:
        raise no_sense("fragment_size", f"a number of bytes from 0 to {FRAGMENT_BYTES_MAX}", size)
    return size or FRAGMENT_BYTES_MAX


def read_control(body: Buffer) -> Control:
    """Read a control record; raises `ProtocolError`."""
    try:
        control = _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a large message has an unreadable control record: {error}") from error
    if control.version != CONTROL_VERSION or control.digest_kind not in DIGESTS:
        raise ProtocolError(
            f"a large message has a control record of version {control.version} with digest"
            f" {control.digest_kind!r}; this is version {CONTROL_VERSION} with"
            f" {' or '.join(DIGESTS)}"
        )
    return control


def label_of_whole(label: str) -> str:
    """The large message's label, by that of a fragment or trailer, which may have cut its end."""
    whole, of_part, _ = label.rpartition(_OF_PART)
    return whole if of_part else label


class Split:
    """The parts of one large message, asked for in order: header, each fragment, trailer."""

    def __init__(
        self,
        message: Message,
        manager: ManagerId,
        sequence: int,
        *,
        parameters: LargeMessageParameters,
        fragment_size: int,
        digest_kind: str = DIGEST_KIND_DEFAULT,
        file: FileProperties | None = None,
    ) -> None:
        """Take the application's message (its body is not looked at) and the header's number."""
        self._message = message
        self._sequence = sequence
        self._parameters = parameters
        self._fragment_size = fragment_size
        self._digest_kind = digest_kind
        self._file = None if file is None else encode_file(file)
        self.sequence_id = join_id(manager, sequence)
        # Every part shares these: that it is kept, and its end when it cannot arrive.
        self._part = Message(
            correlation_id=self.sequence_id,
            recoverable=message.recoverable,
            time_to_reach_queue=message.time_to_reach_queue,
            time_to_be_received=message.time_to_be_received,
            use_dead_letter_queue=message.use_dead_letter_queue,
            use_journal_queue=message.use_journal_queue,
            destination=message.destination,
            priority=message.priority,
        )
        self._fragment_mark = PartMark(Part.FRAGMENT, sequence)
        self.count = 0
        """The number of fragments so far."""
        self.size = 0
        """The bytes of the fragments so far."""

    def header(self, size: int = SIZE_UNKNOWN) -> PartMessage:
        """The first part. Acknowledgments are asked for by the trailer, when all has come."""
        message = msgspec.structs.replace(
            self._message,
            body=self._control(0, size, b""),
            app_specific=self._parameters.header,
            acknowledge=Acknowledge.NONE,
        )
        return PartMessage(message, PartMark(Part.HEADER, self._sequence))

    def fragment(self, body: Buffer, packed: bytes | None = None) -> PartMessage:
        """The next fragment, `packed` or as it is; its number grows from 1."""
        self.count += 1
        self.size += len(body)
        if packed is None:
            return self._fragment(body, self.count)
        mark = PartMark(Part.FRAGMENT, self._sequence, len(body))
        return self._fragment(packed, self.count)._replace(mark=mark)

    def trailer(self, digest: bytes) -> PartMessage:
        """The last part, with the digest of the whole body."""
        return self._trailer(self.count, self.size, digest)

    def fragments_of(self, size: int) -> int:
        """The number of fragments of a body of `size` bytes; an empty one has one."""
        return max(1, -(-size // self._fragment_size))

    def room_for(self, size: int) -> RoomNeeded:
        """Bytes that the parts of a body of `size` bytes take, exactly."""
        count = self.fragments_of(size)
        parts = self.header(size), self._trailer(count, size, bytes(DIGEST_BYTES))
        ends = [_record_bytes(each) for each in parts]
        # The last fragment has the longest label.
        per_fragment = _record_bytes(self._fragment(b"", count))
        longest = max(per_fragment + min(size, self._fragment_size), *ends)
        return RoomNeeded(sum(ends) + count * per_fragment + size, longest)

    def skip(self, size: int) -> None:
        """Pass over a fragment of `size` bytes that is there already."""
        self.count += 1
        self.size += size

    def _fragment(self, body: Buffer, number: int) -> PartMessage:
        message = msgspec.structs.replace(
            self._part, body=body, app_specific=number, label=self._label(number)
        )
        return PartMessage(message, self._fragment_mark)

    def _trailer(self, count: int, size: int, digest: bytes) -> PartMessage:
        message = msgspec.structs.replace(
            self._part,
            body=self._control(count, size, digest),
            app_specific=self._parameters.trailer,
            label=self._label(self._parameters.trailer),
            acknowledge=self._message.acknowledge,
            administration_queue=self._message.administration_queue,
        )
        return PartMessage(message, PartMark(Part.TRAILER, self._sequence, count))

    def _control(self, count: int, size: int, digest: bytes) -> bytes:
        message = self._message
        control = Control(
            CONTROL_VERSION,
            count,
            # The record takes some values for numbers that the codec does not, such as True.
            index(message.app_specific),
            message.correlation_id,
            message.label,
            size,
            self._fragment_size,
            self._digest_kind,
            digest,
            message.extension,
            message.response_queue,
            message.administration_queue,
            index(message.acknowledge),
            self._file,
            message.traceparent,
        )
        return _encode(control)

    def _label(self, number: int) -> str:
        suffix = f"{_OF_PART}{number}"
        return self._message.label[: LABEL_CHARACTERS_MAX - len(suffix)] + suffix


def _record_bytes(part: PartMessage) -> int:
    head, body = encode_record(part.message, bytes(_SOURCE_BYTES), 0, part.mark)
    return len(head) + len(body)
