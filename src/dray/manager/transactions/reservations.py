"""Room set aside for large messages that have begun, so that they cannot fail for want of it.

    begun        counted in the quotas, as staged bytes, and promised on the disk
    a part       is placed out of it: staged bytes stay, the promise shrinks, the disk fills
    the end      commit, abort, prepare: what was not used counts no longer

A large message that is not known to fit is refused before its first byte has travelled. Another
program can still take the promised room: then the part that finds no room is refused, and the
message with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.manager.disk.disk_room import Promise
from dray.manager.queue.index import TAIL_BYTES
from dray.model.arguments import no_sense

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.queue.queues import StoredQueue
    from dray.manager.transactions.open_transaction import OpenTransaction

NOTHING = Promise(0)


def promised(context: Context, size: int, longest: int) -> Promise:
    """The reservation that a client asks for; raises `InvalidArgument` for impossible sizes."""
    if size < 0 or not 0 <= longest <= context.store.heap_file_bytes:
        raise no_sense("size", "bytes of records that fit a heap file each", size)
    return Promise(size, longest)


def check_room(context: Context, queue: StoredQueue, more: Promise) -> None:
    """Raise `QuotaExceeded` or `StoreFull` if there is no room for so much more."""
    context.ledger.check(queue, more.size)
    records = more.size // more.longest + 2 if more.longest else 1
    footprint = context.disk_room.footprint(more)
    # However tiny the parts are said to be, no more are committed than one fact can tell of.
    fact_bytes = min(records * TAIL_BYTES, context.log_room.fact_bytes_max)
    context.disk_room.check(footprint, fact_bytes=fact_bytes)


def reserve(
    context: Context, transaction: OpenTransaction, queue: StoredQueue, more: Promise
) -> None:
    """Set aside more room for a transaction in a queue."""
    before = transaction.reserved.get(queue.number, NOTHING)
    _set(
        context,
        transaction,
        queue.number,
        Promise(before.size + more.size, max(before.longest, more.longest)),
    )
    context.ledger.stage(queue, more.size)


def place_of_reserved(
    context: Context, transaction: OpenTransaction, queue: StoredQueue, count: int
) -> int:
    """Place `count` bytes out of what is set aside; gives how many are beyond it."""
    before = transaction.reserved.get(queue.number, NOTHING)
    if before.size:
        left = max(0, before.size - count)
        _set(context, transaction, queue.number, before._replace(size=left))
    return max(0, count - before.size)


def reserve_again(
    context: Context, transaction: OpenTransaction, number: int, *, wanted: Promise
) -> None:
    """Set aside so much in a queue, which may be gone, in place of what was; it was checked."""
    before = transaction.reserved.get(number, NOTHING)
    _set(context, transaction, number, wanted)
    queue = context.state.queues.get(number)
    if queue is not None:
        context.ledger.stage(queue, wanted.size - before.size)


def give_up_reservations(context: Context, transaction: OpenTransaction) -> None:
    """Count no longer what was set aside and not used."""
    for number, reserved in list(transaction.reserved.items()):
        context.ledger.give_back(number, context.state.queues.get(number), reserved.size)
        _set(context, transaction, number, NOTHING)
    transaction.reserved.clear()


def _set(context: Context, transaction: OpenTransaction, number: int, after: Promise) -> None:
    before = transaction.reserved.get(number, NOTHING)
    transaction.reserved[number] = after
    context.disk_room.change(before, after)
