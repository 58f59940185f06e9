"""Parts of large messages, read back from their records in the heap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dray.errors import ProtocolError, StoreCorrupt
from dray.large.join import PartSeen, SequenceKey
from dray.manager.entries import Entry, part_of, unpack
from dray.manager.queue.arrival_routes import ArrivalRoutes
from dray.manager.queue.queues import StoredQueue
from dray.manager.queue.system import INTERNAL
from dray.model.classes import Part
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.heap.heap import Extent, file_name
from dray.wire.message_frames import MARK_LAST
from dray.wire.record import HEADER_BYTES, RecordHeader, read_header, read_properties


class Records(Protocol):
    """A reader of records: a store, or the heap files of one that is stopped."""

    def read(self, extent: Extent, *, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a record, or the first of them."""
        ...


def part_seen(store: Records, entry: Entry) -> PartSeen:
    """The properties of a part from the record of its entry; raises `StoreCorrupt`."""
    length = entry.length if entry.part == Part.HEADER else HEADER_BYTES
    record = store.read(entry.extent, length=length)
    try:
        seen = seen_in_record(read_header(record), record)
    except ProtocolError as error:
        name = file_name(entry.file)
        raise StoreCorrupt(
            f"event {MESSAGE_FILE_UNREADABLE}: the part of a large message at position"
            f" {entry.lookup_id} is damaged in {name} at byte {entry.offset}: {error}",
            event=MESSAGE_FILE_UNREADABLE,
            file=name,
        ) from error
    return seen._replace(
        lookup_id=entry.lookup_id, transaction=entry.transaction, route=entry.route
    )


def seen_in_record(header: RecordHeader, record: bytes | memoryview, offset: int = 0) -> PartSeen:
    """The properties of a part from its record, before it has a position."""
    is_header = header.part == Part.HEADER
    return PartSeen(
        lookup_id=0,
        part=header.part,
        key=SequenceKey(header.source, header.number if is_header else header.sequence),
        fragment=header.app_specific,
        fragment_count=header.fragment_count,
        transaction=0,
        size=_plain_bytes(header) if header.part == Part.FRAGMENT else 0,
        correlation_id=(
            read_properties(record, header, offset).correlation_id if is_header else None
        ),
    )


def _plain_bytes(header: RecordHeader) -> int:
    """The bytes of the body that a fragment has, compressed or not."""
    return header.fragment_count or header.body_bytes


def find_parts(store: Records, queue: StoredQueue, routes: ArrivalRoutes) -> list[bytes]:
    """Rebuild what is known of a queue's large messages after a start, from its records.

    Gives the entries whose records cannot be read: one of them must not keep a manager from
    starting.
    """
    damaged: list[bytes] = []
    if queue.index.part_count:
        watch_arrivals(store, queue, 1, damaged)
        # This manager's own transactions are there whole or not at all: none is in flight.
        queue.parts.source_went_on(0, 0, ended=True)
        for route in routes.into(queue.number):
            going = routes.going(route)
            queue.parts.source_went_on(route, going, ended=not going)
    return damaged


def watch_arrivals(
    store: Records, queue: StoredQueue, first: int, damaged: list[bytes] | None = None
) -> None:
    """Tell the large messages of a queue what has joined it from a position on.

    Raises `StoreCorrupt` for a record that cannot be read, unless `damaged` takes its entry.
    """
    if not queue.index.part_count or queue.outgoing or queue.number in INTERNAL:
        # Nobody receives there.
        return
    for packed in queue.index.in_position_order(first - 1):
        entry = unpack(packed)
        if entry.part != Part.PLAIN:
            try:
                queue.parts.added(part_seen(store, entry))
            except StoreCorrupt:
                if damaged is None:
                    raise
                damaged.append(packed)
        ended = bool(entry.marks & MARK_LAST)
        queue.parts.source_went_on(entry.route, entry.transaction, ended=ended)


def hold_parts(store: Records, queue: StoredQueue, entries: Iterable[bytes], by: int) -> None:
    """Count parts that a reader of single parts holds (`by` 1) or has put back (-1)."""
    if queue.index.part_count:
        for packed in entries:
            if part_of(packed) != Part.PLAIN:
                assembly = queue.parts.get(part_seen(store, unpack(packed)).key)
                if assembly is not None:
                    assembly.held += by
