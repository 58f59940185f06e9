"""Express messages: in their queue until the manager stops (S3-11, R72, semantics 1.3).

    what                     recoverable                      express
    record                   p file, durable by the sync      r file, in memory while there is room
    joins a queue            by a fact                        by none
    leaves a queue           by a fact; its place is free     by none; its place is free at once
                             when that is durable
    is kept in a journal,    its entry moves there            its record is first written where it
    or as a dead letter                                       lasts, then that joins by a fact
    checkpoint, backup       there                            left out
    after a restart          there                            gone

A message is express if its sender asked for it, outside of a transaction, and its queue is not
transactional (R9). In everything else it is a message like others: in order, priority, quota,
expiry, acknowledgment. An express entry is told by the kind of the heap file that its place is in.

Positions. No position is ever given twice, also not after a restart, though nothing is logged when
an express message takes one. So a queue reserves a block of them by a fact (`PositionsReserved`),
and express messages take positions out of it. Messages that join by a fact join behind the block;
the next express message then needs a new one. To the stream of an outgoing queue a block counts as
taken, so that the sequence that its messages are sent in is never forgotten.
"""

from __future__ import annotations

import crc32c

from dray.errors import StoreCorrupt
from dray.manager.context import Context
from dray.manager.entries import TAIL_BYTES, at_place, place_of
from dray.manager.facts import PositionsReserved
from dray.manager.queue import StoredQueue
from dray.model.classes import Part
from dray.model.limits import EXPRESS_POSITIONS_RESERVED
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.heap.heap import file_name
from dray.store.kinds import Kind
from dray.store.store import Store
from dray.wire.record import FLAG_RECOVERABLE, RecordHeader


def heap_kind_in(queue: StoredQueue, header: RecordHeader, *, in_transaction: bool) -> Kind:
    """The kind of heap file for a message that joins a queue."""
    wanted = not (header.flags & FLAG_RECOVERABLE or in_transaction)
    if wanted and header.part == Part.PLAIN and queue.takes_express:
        return Kind.EXPRESS
    return Kind.RECOVERABLE


def admit_express(context: Context, queue: StoredQueue, tails: bytes) -> None:
    """Let express messages join a queue, behind all that is in it."""
    count = len(tails) // TAIL_BYTES
    block = queue.express_positions
    if queue.express_room < count:
        first = queue.next_lookup_id
        upto = first + max(count, EXPRESS_POSITIONS_RESERVED)
        context.record(PositionsReserved(queue.number, upto, context.now_us))
        block = range(first, upto)
    queue.express_positions = block[count:]
    if queue.stream is not None:
        queue.stream.untaken = len(queue.express_positions)
    context.state.admit_express(queue, tails, block.start)
    context.follow_up.touch(queue)


def lasting(store: Store, tail: bytes, kind: Kind) -> bytes:
    """The tail of the same message with its record written once more, to a file that lasts.

    Raises `StoreFull`, and `StoreCorrupt` for a record that is damaged: a copy of it with its old
    checksum would make the group doubtful that speaks of it.
    """
    extent, crc = place_of(tail)
    record = store.read(extent)
    if crc32c.crc32c(record) != crc:
        name = file_name(extent.file)
        sentence = (
            f"a message in {name} at byte {extent.offset} is damaged and cannot be copied;"
            " `dray check` says which one it is"
        )
        raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)
    return at_place(tail, store.place(record, kind))
