"""Room set aside for large messages that have begun, so that they cannot fail for want of it.

    begun        counted in the quotas, as staged bytes, and promised on the disk
    a part       is placed out of it: staged bytes stay, the promise shrinks, the disk fills
    the end      commit, abort, prepare: what was not used counts no longer
    a minute     without a part: the room is given back, and each later part is checked by itself

A large message that is not known to fit is refused before its first byte has travelled. Another
program can still take the promised room: then the part that finds no room is refused, and the
message with it. A caller other than the owner has at most half of what is free set aside, so that
others find room, too; the rest of its message is checked part by part.
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.errors import QuotaExceeded, StoreFull
from dray.manager.context import Context
from dray.manager.disk import Promise
from dray.manager.entries import TAIL_BYTES
from dray.manager.queue import StoredQueue
from dray.manager.state import Deadlines
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.model.arguments import no_sense
from dray.model.limits import RESERVATION_SHARE, RESERVATION_UNUSED_S

NOTHING_RESERVED = Promise(0)


class Reservations:
    """The open transactions that may have reserved room, and when to look at them."""

    def __init__(self, context: Context, open_ones: Mapping[int, OpenTransaction]) -> None:
        self.context = context
        self.open = open_ones
        self.unused = Deadlines(self._unused_at)
        """When to look whether reserved room is used."""

    def reserve(self, transaction: OpenTransaction, queue: StoredQueue, more: Promise) -> None:
        """Set aside more room for a transaction in a queue, as much as its caller may."""
        context, session = self.context, transaction.session
        assert session is not None, "nobody else reserves"
        _change_reserver(context, transaction, session.caller.place)
        if not session.caller.owner:
            more = more._replace(size=min(more.size, self._share(transaction, queue)))
        self._use(transaction)
        before = transaction.reserved.get(queue.number, NOTHING_RESERVED)
        _set(
            context,
            transaction,
            queue.number,
            Promise(before.size + more.size, max(before.longest, more.longest)),
        )
        context.state.ledger.stage(queue, more.size)

    def reserve_again(
        self, transaction: OpenTransaction, queue: StoredQueue, wanted: Promise
    ) -> None:
        """Set aside so much in place of what was, if there is room; else check each part."""
        context = self.context
        give_up_reservations(context, transaction)
        try:
            check_room(context, queue, wanted)
        except (QuotaExceeded, StoreFull):
            # The parts that find no room are refused, and say so.
            return
        self.reserve(transaction, queue, wanted)

    def _share(self, transaction: OpenTransaction, queue: StoredQueue) -> int:
        """The bytes that the caller of a transaction may still have set aside."""
        context = self.context
        mine = context.room.promised_to[transaction.reserver]
        free = context.room.free - context.room.low_water
        room = min(free, context.state.ledger.room(queue, free))
        return max(0, (room + mine) // RESERVATION_SHARE - mine)

    def _use(self, transaction: OpenTransaction) -> None:
        transaction.drawn_at = self.context.now
        self.unused.note(transaction.number, transaction.drawn_at + RESERVATION_UNUSED_S)

    def _unused_at(self, number: int) -> float | None:
        transaction = self.open.get(number)
        if transaction is None or not transaction.reserved:
            return None
        return transaction.drawn_at + RESERVATION_UNUSED_S

    def give_back_unused(self) -> None:
        """Give back the room of large messages of which no part has come for a while."""
        for number in self.unused.due(self.context.now):
            give_up_reservations(self.context, self.open[number])


def promised(context: Context, size: int, longest: int) -> Promise:
    """The reservation that a client asks for; raises `InvalidArgument` for impossible sizes."""
    if size < 0 or not 0 <= longest <= context.store.heap_file_bytes:
        raise no_sense("size", "bytes of records that fit a heap file each", size)
    return Promise(size, longest)


def check_room(context: Context, queue: StoredQueue, more: Promise) -> None:
    """Raise `QuotaExceeded` or `StoreFull` if there is no room for so much more."""
    context.state.ledger.check(queue, more.size)
    records = more.size // more.longest + 2 if more.longest else 1
    footprint = context.room.footprint(more)
    # However tiny the parts are said to be, no more are committed than one fact can tell of.
    fact_bytes = min(records * TAIL_BYTES, context.room.fact_bytes_max)
    context.room.check(footprint, fact_bytes=fact_bytes)


def place_of_reserved(
    context: Context, transaction: OpenTransaction, queue: StoredQueue, count: int
) -> int:
    """Place `count` bytes out of what is set aside; gives how many are beyond it."""
    before = transaction.reserved.get(queue.number, NOTHING_RESERVED)
    transaction.drawn_at = context.now
    if before.size:
        left = max(0, before.size - count)
        _set(context, transaction, queue.number, before._replace(size=left))
    return max(0, count - before.size)


def give_up_reservations(context: Context, transaction: OpenTransaction) -> None:
    """Count no longer what was set aside and not used."""
    while transaction.reserved:
        number, reserved = transaction.reserved.popitem()
        context.state.ledger.give_back(number, context.state.queues.get(number), reserved.size)
        context.room.change(reserved, NOTHING_RESERVED, transaction.reserver)


def _set(context: Context, transaction: OpenTransaction, number: int, after: Promise) -> None:
    before = transaction.reserved.get(number, NOTHING_RESERVED)
    transaction.reserved[number] = after
    context.room.change(before, after, transaction.reserver)


def _change_reserver(context: Context, transaction: OpenTransaction, place: str) -> None:
    """Count what a transaction has set aside for the caller that it belongs to now."""
    if place != transaction.reserver:
        size = sum(each.size for each in transaction.reserved.values())
        context.room.promised_to.add(transaction.reserver, -size)
        context.room.promised_to.add(place, size)
        transaction.reserver = place
