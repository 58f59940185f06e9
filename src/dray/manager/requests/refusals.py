"""Notifications of a local sender about a full queue, besides the error (semantics 3.4).

    quota        the call       negative acknowledgment   dead letter
    computer     error          -                         -
    queue        error          0x8003, if asked          if asked, of the queue's kind
    journal      -              -                         -

A refused message was in no queue, so each fact here is one of its own. In a batch only the messages
without room are reported; the others are gone with it. Sends in a transaction are not reported: it
is aborted, and an aborted send never was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.errors import StoreFull
from dray.manager.change import CommitFact, heap_kind_in
from dray.manager.context import Context
from dray.manager.entries import Staged, packed_tails
from dray.manager.queue import DEAD_LETTERS, DEAD_TRANSACTIONAL, REFUSED_BYTES, StoredQueue
from dray.model.classes import MessageClass, Part, QueueKind
from dray.store.kinds import Kind
from dray.wire.message_frames import Send
from dray.wire.record import COPY_DEAD_LETTER, RecordHeader, read_properties

FULL = MessageClass.NACK_Q_EXCEED_QUOTA


class _Refused(NamedTuple):
    """A message that found no room: its header, its checksum, and where it is in the frame."""

    header: RecordHeader
    crc: int
    offset: int


def tell_of_full_queue(
    context: Context,
    queue: StoredQueue,
    head: Send,
    *,
    headers: list[RecordHeader],
    body: memoryview,
) -> None:
    """Acknowledge and bury what a queue of this manager had no room for, where that was asked."""
    if queue.kind is not QueueKind.PRIVATE or head.transaction:
        return
    refused = list(_without_room(context, queue, head, headers))
    most = max(1, context.room.fact_bytes_max // REFUSED_BYTES)
    for first in range(0, len(refused), most):
        fact = CommitFact(context)
        for each in refused[first : first + most]:
            _tell(context, queue, fact, each, body=body)
        fact.record()


def _without_room(
    context: Context, queue: StoredQueue, head: Send, headers: list[RecordHeader]
) -> Iterator[_Refused]:
    size = offset = 0
    for header, length, crc in zip(headers, head.sizes, head.crcs, strict=True):
        if context.state.ledger.has_own_room(queue, size + length):
            size += length
        elif header.copies:
            yield _Refused(header, crc, offset)
        offset += length


def _tell(
    context: Context,
    queue: StoredQueue,
    fact: CommitFact,
    refused: _Refused,
    *,
    body: memoryview,
) -> None:
    header, crc, offset = refused
    kind = heap_kind_in(queue, header, in_transaction=False)
    properties = read_properties(body, header, offset)
    fact.departures.tell(header, properties, FULL, route=None, kind=kind)
    if not header.copies & COPY_DEAD_LETTER:
        return
    dead = DEAD_TRANSACTIONAL if queue.options.transactional else DEAD_LETTERS
    try:
        context.room.check(header.record_bytes, fact_bytes=REFUSED_BYTES)
        record = body[offset : offset + header.record_bytes]
        place = context.store.place(record, Kind.JOURNAL)
    except StoreFull:
        context.state.queues.numbered(dead).copies_skipped += 1
        return
    buried = Staged(
        place,
        crc,
        header.number,
        Part.PLAIN,
        0,
        context.now_us,
        copies=header.copies,
        message_class=FULL,
    )
    if not fact.departures.move(dead, packed_tails([buried], 0, context.now_us)):
        context.store.discard(place)
