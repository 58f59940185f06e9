"""Messages to records on their way out, records to messages on their way in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import Parameter
from itertools import accumulate, repeat
from operator import attrgetter, is_
from typing import (
    Any,
    NamedTuple,
    Self,
    TypedDict,
    TypeGuard,
    TypeVar,
    cast,
    get_type_hints,
)

import msgspec

from dray.checksum import crc32c
from dray.client.calls.arguments import PROPERTIES, checked_message
from dray.errors import InvalidArgument, ProtocolError
from dray.model.classes import Acknowledge, MessageClass
from dray.model.ids import LookupId, ManagerId, MessageId, TransactionId, join_id
from dray.model.limits import (
    APP_SPECIFIC_MAX,
    APP_SPECIFIC_MIN,
    BATCH_MESSAGES_MAX,
    FRAME_BODY_BYTES_MAX,
)
from dray.model.message import Buffer, Message
from dray.model.names import SYSTEM, parse_queue_address
from dray.wire.alike import AlikeRecords, encode_alike, read_alike
from dray.wire.message_frames import MARK_FIRST, MARK_LAST, Envelope
from dray.wire.record import (
    FLAG_DEAD_LETTER,
    FLAG_JOURNAL,
    FLAG_NO_DEAD_LETTER,
    FLAG_RECOVERABLE,
    FLAGS_POSSIBLE,
    HEADER_BYTES,
    PLAIN,
    PartMark,
    RecordHeader,
    acknowledge_of,
    encode_record,
    read_header,
    read_properties,
)

_Send = TypeVar("_Send", bound=Callable[..., Any])
_MICROSECONDS = 1_000_000
_SOURCE_BYTES = 16
_REMOTE = ("dray:", "drays:")
_others_of = attrgetter("destination", *(each for each in PROPERTIES if each != "app_specific"))
"""Everything that a record says of its message but its body and `app_specific`."""
_CLASSES = {int(each): each for each in MessageClass}
_CHOICES: dict[int, tuple[bool, bool | None, bool]] = {
    flags: (
        flags & FLAG_RECOVERABLE != 0,
        True if flags & FLAG_DEAD_LETTER else False if flags & FLAG_NO_DEAD_LETTER else None,
        flags & FLAG_JOURNAL != 0,
    )
    for flags in FLAGS_POSSIBLE
}
"""By the flags of a record: recoverable, `use_dead_letter_queue`, `use_journal_queue`."""


class SendProperties(TypedDict, total=False):
    """Properties of a message besides its body; the defaults are those of `Message`."""

    label: str
    correlation_id: str | None
    app_specific: int
    extension: bytes
    priority: int
    recoverable: bool | None
    time_to_reach_queue: float | None
    time_to_be_received: float | None
    administration_queue: str | None
    acknowledge: Acknowledge
    response_queue: str | None
    use_dead_letter_queue: bool | None
    use_journal_queue: bool
    traceparent: str | None


def spells_out_properties(send: _Send) -> _Send:
    """Show `**properties` of a method as what it stands for, in `help` and `inspect.signature`.

    Each is a keyword argument with the default of `Message`.
    """
    signature = inspect.signature(send)
    defaults = {each.name: each.default for each in msgspec.structs.fields(Message)}
    properties = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind)
        for name, kind in get_type_hints(SendProperties).items()
    ]
    shown = [
        each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD
    ]
    shown[2:2] = properties  # behind the queue itself and the body
    vars(send)["__signature__"] = signature.replace(parameters=shown)
    return send


class Record(NamedTuple):
    """One message as bytes, in two pieces so that a body is not copied, with length and CRC32C."""

    head: bytes
    body: Buffer
    size: int
    crc: int


_record_from: Callable[[tuple[object, ...]], Record] = partial(tuple.__new__, Record)
"""Without a call of a Python function for each message."""


class Arrived(NamedTuple):
    """A record that came, taken apart; `body` is a view into the memory of its frame."""

    header: RecordHeader
    message: Message
    body: memoryview


class ReceivedTransaction(NamedTuple):
    """The messages that one transaction has sent to a queue, in order.

    `missing` are the places in the transaction, from 1, whose messages did not come or had left.
    """

    messages: list[Message]
    missing: list[int]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def message_from(body: Buffer | Message, properties: SendProperties) -> Message:
    """Make the message to send. Its body is immutable from here on."""
    if isinstance(body, Message):
        message = checked_message(body)
        if properties:
            message = msgspec.structs.replace(message, **properties)
        if type(message.body) is bytes:
            return message
        return msgspec.structs.replace(message, body=_immutable(message.body))
    return Message(body=body if type(body) is bytes else _immutable(body), **properties)


def addressed(message: Message, destination: str) -> Message:
    """Note where a message is sent to, if it may be kept elsewhere (R51)."""
    kept = message.use_dead_letter_queue
    if kept is None:
        # Only another manager refuses what this one has accepted.
        kept = destination.startswith(_REMOTE)
    if kept or message.use_journal_queue:
        return msgspec.structs.replace(message, destination=destination)
    return message


def record_of(message: Message, source: bytes, number: int, mark: PartMark = PLAIN) -> Record:
    """Encode a message under a number; raises `MessageTooLarge` or `Misuse`."""
    head, body = encode_record(message, source, number, mark)
    _check_acknowledgments(message)
    crc = crc32c(body, crc32c(head))
    return _record_from((head, body, len(head) + len(body), crc))


def _check_acknowledgments(message: Message) -> None:
    if message.administration_queue is not None:
        parse_queue_address(message.administration_queue)
    elif message.acknowledge:
        raise acknowledges_to_nobody()


def acknowledges_to_nobody() -> InvalidArgument:
    """The error for acknowledgments that no queue would receive."""
    return InvalidArgument(
        "acknowledge needs administration_queue, the queue that receives the acknowledgments",
        argument="acknowledge",
    )


def are_alike(batch: list[Message | Buffer]) -> TypeGuard[list[Message]]:
    """Whether a batch has only messages of plain bytes that differ in body and `app_specific`.

    And all these numbers fit. The other properties may still be wrong, but then all are.
    """
    if {*map(type, batch)} != {Message}:
        return False
    messages = cast("list[Message]", batch)
    if {type(each.body) for each in messages} != {bytes}:
        return False
    said = [each.app_specific for each in messages]
    if {*map(type, said)} != {int} or min(said) < APP_SPECIFIC_MIN or max(said) > APP_SPECIFIC_MAX:
        return False
    columns = zip(*map(_others_of, messages), strict=True)
    return all(all(map(is_, column, repeat(column[0]))) for column in columns)


class SendBatch:
    """Messages that are sent together; those that are nearly the same are encoded by few calls."""

    def __init__(self, given: Iterable[Message | Buffer], destination: str) -> None:
        """Take what a program sends to a queue; raises as `message_from` does."""
        batch = list(given)
        self.count = len(batch)
        self._like = Message()
        self._messages: list[Message] = []
        self._bodies: list[bytes] = []
        self._app_specific: list[int] = []
        if {*map(type, batch)} == {bytes}:
            self._bodies = cast("list[bytes]", batch)
        elif are_alike(batch):
            self._like = checked_message(batch[0])
            self._bodies = [cast("bytes", each.body) for each in batch]
            self._app_specific = [each.app_specific for each in batch]
        else:
            self._messages = [addressed(message_from(each, {}), destination) for each in batch]
        self._like = addressed(self._like, destination)

    def records(self, source: bytes, first: int) -> list[Record]:
        """Encode them, numbered from one on; raises as `record_of` does."""
        if not self._bodies:
            return [record_of(each, source, at) for at, each in enumerate(self._messages, first)]
        bodies = self._bodies
        heads, sizes = encode_alike(
            self._like, bodies, source, first, app_specific=self._app_specific
        )
        _check_acknowledgments(self._like)
        crcs = map(crc32c, bodies, map(crc32c, heads))
        return list(map(_record_from, zip(heads, bodies, sizes, crcs, strict=True)))


def in_frames(records: list[Record]) -> Iterator[list[Record]]:
    """Cut records into as few frames as fit the bounds of one frame."""
    frame: list[Record] = []
    length = 0
    for record in records:
        if length + record.size > FRAME_BODY_BYTES_MAX or len(frame) >= BATCH_MESSAGES_MAX:
            yield frame
            frame, length = [], 0
        frame.append(record)
        length += record.size
    if frame:
        yield frame


def check_sendable(message: Message) -> None:
    """Raise what `record_of` raises for the properties of a message; its body may be another."""
    record_of(message, bytes(_SOURCE_BYTES), 0)


def messages_in(envelopes: Sequence[Envelope], body: memoryview, destination: str) -> list[Message]:
    """Take a frame's records apart, one at least; raises `ProtocolError` for what is damaged."""
    read_from = _ReadFrom.of(destination)
    if len(envelopes) == 1:
        return [_received(envelopes[0], body, read_from)]
    sizes = [each.length for each in envelopes]
    ends = [*accumulate(sizes)]
    if not ends or ends[-1] != len(body):
        raise ProtocolError("the records in an answer do not match its envelopes")
    records = [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    alike = _alike(envelopes, records, body)
    if alike is not None:
        return _plain_messages(envelopes, records, alike, read_from.destination)
    return [
        _received(envelope, record, read_from)
        for envelope, record in zip(envelopes, records, strict=True)
    ]


def _received(envelope: Envelope, record: memoryview, read_from: _ReadFrom) -> Message:
    header = checked_header(record, envelope.length, envelope.crc)
    body = bytes(record[HEADER_BYTES + header.properties_bytes :])
    return _message(envelope, record, header, read_from=read_from, body=body)


def arrived(envelope: Envelope, record: memoryview, destination: str) -> Arrived:
    """Take one record apart, checked; raises `ProtocolError` if it was damaged."""
    header = checked_header(record, envelope.length, envelope.crc)
    body = record[HEADER_BYTES + header.properties_bytes :]
    read_from = _ReadFrom.of(destination)
    message = _message(envelope, record, header, read_from=read_from, body=bytes(body))
    return Arrived(header, message, body)


class _ReadFrom(NamedTuple):
    """The destination of the messages of a queue, as far as its name says it."""

    destination: str
    """It, or of a journal its queue."""
    keeps_copies: bool
    """Whether messages were sent elsewhere, and their senders noted where."""

    @classmethod
    def of(cls, name: str) -> Self:
        """Read the name of a queue."""
        queue, _, sub_queue = name.partition(";")
        if queue == SYSTEM:
            return cls(name, keeps_copies=True)
        return cls(queue if sub_queue == "journal" else name, keeps_copies=False)


def _alike(
    envelopes: Sequence[Envelope], records: list[memoryview], body: memoryview
) -> AlikeRecords | None:
    """The common header of plain, undamaged messages without properties; None for all others."""
    if [*map(crc32c, records)] != [each.crc for each in envelopes]:
        return None
    if {each.message_class for each in envelopes} != {MessageClass.NORMAL}:
        return None
    alike = read_alike(body, [*map(len, records)])
    return None if alike is None or alike.first.properties_bytes else alike


def _plain_messages(
    envelopes: Sequence[Envelope],
    records: list[memoryview],
    alike: AlikeRecords,
    destination: str,
) -> list[Message]:
    """The messages of alike records, as `_message` makes each; what is not given is the default."""
    header, numbers, app_specific = alike
    source = ManagerId(header.source.hex())
    recoverable, dead_letter, journal = _CHOICES[header.flags]
    before = join_id(source, 0)[:-1]
    transactions = {each.transaction for each in envelopes}
    transaction_ids = {each: TransactionId(f"{before}{each}") for each in transactions if each}
    # Named as columns: `MessageId` and `LookupId` would be a call for each message.
    ids = cast("list[MessageId]", [f"{before}{number}" for number in numbers])
    lookup_ids = cast("list[LookupId]", [each.lookup_id for each in envelopes])
    return [
        Message(
            bytes(record[HEADER_BYTES:]),
            priority=0 if envelope.transaction else header.priority,
            recoverable=recoverable or envelope.transaction != 0,
            app_specific=said,
            use_dead_letter_queue=dead_letter,
            use_journal_queue=journal,
            id=message_id,
            lookup_id=lookup_id,
            transaction_id=transaction_ids.get(envelope.transaction),
            first_in_transaction=envelope.marks & MARK_FIRST != 0,
            last_in_transaction=envelope.marks & MARK_LAST != 0,
            sent_time=envelope.sent_us / _MICROSECONDS,
            arrived_time=envelope.arrived_us / _MICROSECONDS,
            source=source,
            destination=destination,
            abort_count=envelope.abort_count,
            move_count=envelope.move_count,
        )
        for envelope, record, message_id, lookup_id, said in zip(
            envelopes, records, ids, lookup_ids, app_specific, strict=True
        )
    ]


def _message(
    envelope: Envelope,
    record: memoryview,
    header: RecordHeader,
    *,
    read_from: _ReadFrom,
    body: bytes,
) -> Message:
    properties = read_properties(record, header)
    source = ManagerId(header.source.hex())
    marks, transaction = envelope.marks, envelope.transaction
    recoverable, dead_letter, journal = _CHOICES[header.flags]
    destination = read_from.destination
    if read_from.keeps_copies:
        destination = properties.destination or destination
    return Message(
        body=body,
        label=properties.label,
        correlation_id=properties.correlation_id,
        app_specific=header.app_specific,
        extension=properties.extension,
        # In a transaction priorities would break its order, and nothing may be lost (R9).
        priority=0 if transaction else header.priority,
        recoverable=recoverable or bool(transaction),
        time_to_reach_queue=properties.time_to_reach_queue,
        time_to_be_received=properties.time_to_be_received,
        administration_queue=properties.administration_queue,
        acknowledge=acknowledge_of(header),
        response_queue=properties.response_queue,
        use_dead_letter_queue=dead_letter,
        use_journal_queue=journal,
        traceparent=properties.traceparent,
        id=MessageId(join_id(source, header.number)),
        lookup_id=LookupId(envelope.lookup_id),
        message_class=_class_of(envelope.message_class),
        transaction_id=TransactionId(join_id(source, transaction)) if transaction else None,
        first_in_transaction=marks & MARK_FIRST != 0,
        last_in_transaction=marks & MARK_LAST != 0,
        sent_time=envelope.sent_us / _MICROSECONDS,
        arrived_time=envelope.arrived_us / _MICROSECONDS,
        source=source,
        destination=destination,
        abort_count=envelope.abort_count,
        move_count=envelope.move_count,
    )


def checked_header(record: memoryview, length: int, crc: int) -> RecordHeader:
    """Read a record's header once its length and CRC32C fit; raises `ProtocolError`."""
    if crc32c(record) != crc or len(record) != length:
        raise ProtocolError(
            "a message was damaged in the store or in transit: its CRC32C does not match"
        )
    header = read_header(record)
    if HEADER_BYTES + header.properties_bytes + header.body_bytes != length:
        raise ProtocolError("a message record has another length than its envelope says")
    return header


def _immutable(body: object) -> bytes:
    try:
        view = memoryview(cast("Buffer", body))
    except (TypeError, ValueError, BufferError) as error:
        hint = ': encode it first, as in text.encode("utf-8")' if isinstance(body, str) else ""
        kind = type(body).__name__
        raise TypeError(f"the body of a message is bytes, not {kind}{hint}") from error
    # A body that changes under us before it is flushed would no longer fit its CRC32C.
    return bytes(view)


def _class_of(value: int) -> MessageClass:
    message_class = _CLASSES.get(value)
    if message_class is None:
        raise ProtocolError(f"there is no message class {value:#06x}")
    return message_class
