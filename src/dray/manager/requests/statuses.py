"""The status queue of a receive: a message in it for each large message that has been decided upon.

    receive finds      status message                     then
    a whole one        complete: placed, or found there   held with the parts by the transaction
    one with a hole    delete: placed, or found there     told; the receiver rejects it (see below)
    nothing            junk about this queue              discarded

A status message is placed in a fact before the receiver hears of its large message, and leaves in
the fact in which the parts leave; so after an abort, or any crash, it says what the next receive is
to do first. A receiver that was told of a hole rejects the parts in a transaction of its own: dies
it before, the status message is still there and the hole is told again (S0-16, R90, R91, R95).
"""

from __future__ import annotations

from itertools import islice

import crc32c

from dray.errors import QuotaExceeded, StatusQueueMissing, StoreFull
from dray.large.join import Assembly, SequenceKey
from dray.large.status import Status, read_status, status_message
from dray.manager.change import CommitFact, set_aside
from dray.manager.context import Context
from dray.manager.entries import TAIL_BYTES, Entry, Staged, lookup_id_of, unpack
from dray.manager.notices import NoticeKind
from dray.manager.queue import POSITION_BYTES, StoredQueue
from dray.manager.requests.receiving import hold
from dray.manager.rights import no_status_queue
from dray.manager.transactions import OpenTransaction, take
from dray.manager.works import Works
from dray.model.classes import MessageClass, Part, QueueKind
from dray.model.limits import STATUS_BYTES_MAX, STATUSES_SEEN_MAX
from dray.wire.record import HEADER_BYTES, read_header

_HEAD_BYTES = 1_024
"""More than header and properties of a status message take."""
_JUNK = (
    "a message was discarded from this status queue: it is not a status of a large message, or the"
    " large message was purged, moved or deleted; only queue managers send here"
)
_KINDS = (QueueKind.PRIVATE, QueueKind.SUB)


class Statuses:
    """The status messages of the large messages of one queue."""

    def __init__(self, works: Works, status_queue: StoredQueue, queue: StoredQueue) -> None:
        """Read the status messages, and discard junk."""
        self._context = works.context
        self._works = works
        self._status_queue = status_queue
        self._queue = queue
        self._positions: dict[SequenceKey, int] = {}
        self._look_through()

    def decided(self) -> list[Assembly]:
        """The large messages that have a status, in the order of the status messages."""
        found = [self._queue.parts.get(key) for key in self._positions]
        return [each for each in found if each is not None and each.decided and not each.held]

    def place(self, assembly: Assembly) -> None:
        """Say durably what is to become of a large message, unless it was said already.

        Where a quota or the disk has no room, nothing is said: that must not keep a receiver from
        making room, and the parts tell the same.
        """
        context, target = self._context, self._status_queue
        if assembly.key in self._positions:
            return
        message = status_message(self._queue.name, assembly.key, list(assembly.missing()))
        try:
            context.state.ledger.check(target, message.body_size + _HEAD_BYTES)
            context.room.check(message.body_size + _HEAD_BYTES, fact_bytes=TAIL_BYTES)
            extent, crc, number = context.own_messages.place(message)
        except (QuotaExceeded, StoreFull):
            return
        staged = Staged(extent, crc, number, Part.PLAIN, 0, context.now_us)
        self._positions[assembly.key] = target.next_lookup_id
        fact = CommitFact(context)
        fact.join_own(target, staged)
        fact.record()

    def hold(self, assembly: Assembly, owner: OpenTransaction) -> None:
        """Let the status message leave, or come back, with the parts."""
        lookup_id = self._positions.get(assembly.key)
        packed = self._status_queue.index.find(lookup_id) if lookup_id is not None else None
        if packed is not None:
            owner.note_operations(self._context, 1, POSITION_BYTES)
            hold(self._status_queue, owner, [packed])

    def _look_through(self) -> None:
        junk: list[int] = []
        damaged: list[bytes] = []
        for packed in islice(self._status_queue.index.available(), STATUSES_SEEN_MAX):
            entry = unpack(packed)
            status, intact = _read(self._context, entry)
            if not intact:
                damaged.append(packed)
            elif status is None or self._context.state.queues.find(status.queue) is None:
                junk.append(lookup_id_of(packed))
            elif self._context.state.queues.find(status.queue) is not self._queue:
                continue
            elif status.key in self._positions or self._queue.parts.get(status.key) is None:
                junk.append(lookup_id_of(packed))
            else:
                self._positions[status.key] = lookup_id_of(packed)
        if damaged:
            set_aside(self._context, self._status_queue, damaged)
        if junk:
            self._context.notices.add(
                NoticeKind.STATUS_JUNK, self._status_queue.name, _JUNK, len(junk)
            )
            take(self._works, self._status_queue, junk, MessageClass.NACK_RECEIVE_REJECTED)


def take_back(works: Works, owner: OpenTransaction, number: int, key: SequenceKey) -> None:
    """Discard the status that a transaction holds of a large message that it holds no more."""
    context = works.context
    status_queue = context.state.queues.get(number)
    if status_queue is None:
        return
    for lookup_id in owner.receives.get(number, ()):
        held = status_queue.index.held(lookup_id)
        status = None if held is None else _read(context, unpack(held[0]))[0]
        if status is not None and status.key == key:
            owner.receives[number].remove(lookup_id)
            status_queue.index.put_back([lookup_id])
            take(works, status_queue, [lookup_id])
            return


def statuses_of(works: Works, number: int, queue: StoredQueue) -> Statuses | None:
    """The statuses in the status queue that a receive names; None if it names none.

    Raises `StatusQueueMissing` for one that cannot be one.
    """
    if not number:
        return None
    status_queue = works.context.state.queues.get(number)
    if status_queue is None:
        raise no_status_queue()
    if status_queue is queue or status_queue.kind not in _KINDS:
        raise StatusQueueMissing(
            f"{status_queue.name!r} cannot be the status queue of {queue.name!r}: it has another"
            " use; name a queue for status messages only",
            queue=status_queue.name,
        )
    # As junk they would be discarded, and perhaps only the name is wrong.
    if len(status_queue.parts):
        raise StatusQueueMissing(
            f"{status_queue.name!r} cannot be the status queue of {queue.name!r}: it has large"
            " messages; purge it, or name a queue for status messages only",
            queue=status_queue.name,
        )
    if not status_queue.options.transactional:
        raise StatusQueueMissing(
            f"the status queue {status_queue.name!r} is not transactional; create it anew as one"
            " that is",
            queue=status_queue.name,
        )
    return Statuses(works, status_queue, queue)


def _read(context: Context, entry: Entry) -> tuple[Status | None, bool]:
    """The status in a message, None if it is none; and whether its bytes are intact."""
    if entry.length > STATUS_BYTES_MAX:
        return None, True
    record = context.store.read(entry.extent)
    if crc32c.crc32c(record) != entry.crc:
        return None, False
    # Its header was read when it came, and its bytes are the same.
    begin = HEADER_BYTES + read_header(record).properties_bytes
    return read_status(memoryview(record)[begin:]), True
