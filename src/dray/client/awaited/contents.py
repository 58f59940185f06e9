"""The messages of a queue without their bodies, a large one as one. Nothing is taken.

The queue manager gives rows of single messages by position, also of those that a transaction
holds. The parts of a large message are put together here. It is given when its trailer was read, or
at the end of the queue; messages behind it wait, so that the order is that of first parts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from dray.client.connections.link import QueueHandle
from dray.errors import ProtocolError
from dray.large.split import label_of_whole
from dray.model.classes import MessageClass, Part
from dray.model.ids import LookupId, ManagerId, MessageId, TransactionId, join_id
from dray.model.limits import BATCH_MESSAGES_MAX, FRAME_BODY_BYTES_MAX
from dray.model.names import parse_queue_address
from dray.model.queued import QueuedMessage, QueuedPart, Wholeness
from dray.wire.large_frames import LargeList, LargeListed
from dray.wire.message_frames import MARK_LAST
from dray.wire.queue_frames import DescribeQueue, QueueState
from dray.wire.range_frames import RANGE_ROW, MeasureRange, RangeMeasured, RangeRead, ReadRange
from dray.wire.record import FLAG_RECOVERABLE, RecordHeader, read_header, read_properties

_MICROSECONDS = 1e6
_HEADER_AND_TRAILER = 2
_ASKED_MAX = 100
"""Large messages without an end of which the queue manager is asked; each is a request."""


class _Row(NamedTuple):
    """One message as a single record."""

    header: RecordHeader
    message: QueuedMessage
    transaction: int
    is_last: bool


class _Gathered:
    """A large message whose parts are being read."""

    def __init__(self, row: _Row) -> None:
        self.first = row
        self.header: _Row | None = None
        self.fragments: set[int] = set()
        self.count: int | None = None
        self.parts = self.size = 0
        self.ended = False

    def add(self, row: _Row) -> None:
        header = row.header
        self.parts += 1
        if header.part == Part.HEADER:
            self.header = row
        elif header.part == Part.TRAILER:
            self.count, self.ended = header.fragment_count, True
        else:
            self.fragments.add(header.app_specific)
            self.size += header.fragment_count or header.body_bytes

    def message(self) -> QueuedMessage:
        said = (self.header or self.first).message
        header = self.first.header
        sequence = header.number if header.part == Part.HEADER else header.sequence
        whole = self.header is not None and self.count == len(self.fragments)
        wholeness = Wholeness.HOLE if self.ended else Wholeness.IN_FLIGHT
        return msgspec.structs.replace(
            said,
            lookup_id=self.first.message.lookup_id,
            id=MessageId(join_id(said.source, sequence)),
            size=self.size,
            label=said.label if self.header else label_of_whole(said.label),
            parts=self.parts,
            wholeness=Wholeness.WHOLE if whole else wholeness,
            parts_in_all=None if self.count is None else self.count + _HEADER_AND_TRAILER,
            # In a header this is the mark that says so.
            app_specific=0,
        )

    def message_that_leaves(self) -> QueuedMessage:
        """In an outgoing queue: parts that are not there have arrived at its destination."""
        found = self.message()
        if found.wholeness is Wholeness.HOLE:
            return msgspec.structs.replace(found, wholeness=Wholeness.IN_FLIGHT)
        return found


async def contents_of(handle: QueueHandle, after: int) -> AsyncGenerator[QueuedMessage, None]:
    """The messages of a queue whose first parts are behind a position, in that order."""
    waiting: dict[tuple[bytes, int], _Gathered | QueuedMessage] = {}
    under_way: dict[tuple[bytes, int], _Gathered] = {}
    is_outgoing = parse_queue_address(handle.name).remote
    said = _Gathered.message_that_leaves if is_outgoing else _Gathered.message
    start = after if await _has_no_parts(handle, after) else 0
    async for row in _rows(handle, start):
        header, message = row.header, row.message
        if row.is_last:
            for each in under_way.values():
                each.ended |= each.first.transaction == row.transaction
        if header.part == Part.PLAIN:
            waiting[b"", message.lookup_id] = message
        else:
            number = header.number if header.part == Part.HEADER else header.sequence
            key = header.source, number
            if key not in under_way:
                under_way[key] = waiting[key] = _Gathered(row)
            under_way[key].add(row)
            under_way[key].ended |= row.is_last
        for complete in _complete(waiting, under_way, said):
            if complete.lookup_id > after:
                yield complete
    if not is_outgoing:
        await _note_ends(handle, under_way.values())
    for found in waiting.values():
        last = found if isinstance(found, QueuedMessage) else said(found)
        if last.lookup_id > after:
            yield last


async def _note_ends(handle: QueueHandle, unfinished: Iterable[_Gathered]) -> None:
    """Ask which large messages have ended though no part in the queue says so.

    Their source has told the queue manager: somebody cancelled them there.
    """
    asked = [each for each in unfinished if not each.ended]
    for each in asked[:_ASKED_MAX]:
        position = each.first.message.lookup_id
        _, frame = await handle.call(
            lambda queue, after=position - 1: LargeList(queue, after, 1, held=True),  # type: ignore[misc]
            LargeListed,
        )
        assert isinstance(frame.head, LargeListed)
        each.ended = any(entry.first_lookup_id == position for entry in frame.head.entries)


async def parts_of(handle: QueueHandle, lookup_id: int) -> AsyncGenerator[QueuedPart, None]:
    """The parts that are in a queue of the large message that begins at a position, in order."""
    wanted: tuple[bytes, int] | None = None
    async for row in _rows(handle, lookup_id - 1):
        header, message = row.header, row.message
        number = header.number if header.part == Part.HEADER else header.sequence
        if wanted is None:
            if message.lookup_id != lookup_id or header.part == Part.PLAIN:
                return
            wanted = header.source, number
        if header.part == Part.PLAIN or wanted != (header.source, number):
            continue
        fragment = header.part == Part.FRAGMENT
        yield QueuedPart(
            part=Part(header.part),
            number=header.app_specific if fragment else 0,
            lookup_id=message.lookup_id,
            id=message.id,
            size=header.fragment_count or header.body_bytes if fragment else 0,
            arrived_time=message.arrived_time,
        )
        if header.part == Part.TRAILER:
            return


def _complete(
    waiting: dict[tuple[bytes, int], _Gathered | QueuedMessage],
    under_way: dict[tuple[bytes, int], _Gathered],
    said: Callable[[_Gathered], QueuedMessage],
) -> Iterator[QueuedMessage]:
    """The messages at the front that lack no part."""
    while waiting:
        key, found = next(iter(waiting.items()))
        if isinstance(found, QueuedMessage):
            yield found
        elif found.count is None:
            return
        else:
            del under_way[key]
            yield said(found)
        del waiting[key]


async def _has_no_parts(handle: QueueHandle, after: int) -> bool:
    """Whether no large message can have begun before a position: none is there."""
    if not after:
        return True
    info = (await handle.link.ask(DescribeQueue(handle.name), QueueState)).info
    _, frame = await handle.call(lambda queue: MeasureRange(queue, 0, after), RangeMeasured)
    assert isinstance(frame.head, RangeMeasured)
    return frame.head.plain == info.message_count


async def _rows(handle: QueueHandle, after: int) -> AsyncGenerator[_Row, None]:
    while True:
        connection, frame = await handle.call(
            lambda queue, after=after: ReadRange(  # type: ignore[misc]
                queue, after, 0, BATCH_MESSAGES_MAX, FRAME_BODY_BYTES_MAX, bodies=False
            ),
            RangeRead,
        )
        head = frame.head
        assert isinstance(head, RangeRead)
        rows = list(_rows_in(handle.name, head, frame.body))
        connection.give_back(frame.body)
        for row in rows:
            yield row
        if not rows:
            return
        after = rows[-1].message.lookup_id


def _rows_in(queue: str, head: RangeRead, body: memoryview) -> Iterator[_Row]:
    offset = 0
    for (
        lookup_id, transaction, sent, arrived, _, _, given, _, message_class, marks,
    ) in RANGE_ROW.iter_unpack(head.rows):  # fmt: skip
        record = body[offset : offset + given]
        offset += given
        header = read_header(record)
        properties = read_properties(record, header)
        source = ManagerId(header.source.hex())
        try:
            why = MessageClass(message_class)
        except ValueError as error:
            raise ProtocolError(f"there is no message class {message_class:#06x}") from error
        message = QueuedMessage(
            queue=queue,
            lookup_id=LookupId(lookup_id),
            id=MessageId(join_id(source, header.number)),
            label=properties.label,
            size=header.body_bytes,
            correlation_id=properties.correlation_id,
            app_specific=header.app_specific,
            priority=0 if transaction else header.priority,
            recoverable=bool(header.flags & FLAG_RECOVERABLE or transaction),
            message_class=why,
            transaction_id=TransactionId(join_id(source, transaction)) if transaction else None,
            source=source,
            destination=properties.destination,
            sent_time=sent / _MICROSECONDS,
            arrived_time=arrived / _MICROSECONDS,
        )
        yield _Row(header, message, transaction, bool(marks & MARK_LAST))
