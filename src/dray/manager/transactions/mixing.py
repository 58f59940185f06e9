"""Plain messages and large ones do not mix in a queue that programs send to (S0-3).

    what a queue has                                      plain send   plain receive   large send
    nothing                                               yes          waits           yes
    plain messages only                                   yes          yes             yes
    parts, free or held by a transaction                  refused      refused         yes
    parts in a sub-queue, from which they may come back   refused      as it stands    yes
    parts in an open, prepared or unfinished send         refused      as it stands    yes

The table is asked again when something changes: a plain receive that waits is refused when parts
come, and a transaction that has sent a plain message is refused at its commit if parts have come
meanwhile. Nothing here is written down: the parts in the index say how a queue is used, so an empty
queue may be used for either kind, also after a restart. Only messages of other managers, prepared
transactions and moves from a sub-queue join whatever is there, since they were accepted before.

Dead-letter queues, journals and the other system queues are exempt: the manager puts both kinds
into them, so both kinds can be received from them.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import LargeMessageMixing
from dray.manager.context import Context
from dray.manager.entries import Staged
from dray.manager.queue import StoredQueue
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.model.classes import QueueKind

_EXEMPT = (QueueKind.SYSTEM, QueueKind.JOURNAL)


def check_plain_receive(queue: StoredQueue) -> None:
    """Raise `LargeMessageMixing` if a plain receive could take a part of a large message."""
    if queue.index.part_count and queue.kind not in _EXEMPT:
        raise LargeMessageMixing(
            f"queue {queue.name!r} is used for large messages; use LargeMessageQueue with it until"
            " it is empty",
            queue=queue.name,
        )


def check_plain_send(queue: StoredQueue) -> None:
    """Raise `LargeMessageMixing` if large messages are in a queue, or on their way into it."""
    holder = _holder_of_parts(queue)
    if holder is queue:
        what = f"queue {queue.name!r} is used for large messages"
    elif holder is not None:
        what = f"large messages from queue {queue.name!r} are in {holder.name!r}"
    elif queue.large_senders:
        what = f"a large message is being sent to queue {queue.name!r}"
    else:
        return
    raise LargeMessageMixing(
        f"{what}; use LargeMessageQueue, or send plain messages when those are received or purged",
        queue=queue.name,
    )


def mixed_at_commit(context: Context, transaction: OpenTransaction) -> LargeMessageMixing | None:
    """Why a transaction cannot commit the plain messages that it has sent, if it cannot."""
    for number in sorted(transaction.plain_to):
        queue = context.state.queues.get(number)
        if queue is not None and _holder_of_parts(queue) is not None:
            return LargeMessageMixing(
                f"large messages came to queue {queue.name!r} after the transaction had sent a"
                " plain message to it; nothing of the transaction is kept, do it again when they"
                " are received",
                queue=queue.name,
            )
    return None


def note_sent(
    queue: StoredQueue, transaction: OpenTransaction, staged: Iterable[Staged], *, guarded: bool
) -> None:
    """Remember what an open transaction has sent to a queue, until it ends."""
    parts = [bool(each.part) for each in staged]
    if any(parts):
        note_large_send(queue, transaction)
    if guarded and not all(parts):
        transaction.plain_to.add(queue.number)


def note_large_send(queue: StoredQueue, transaction: OpenTransaction) -> None:
    """Remember that a transaction sends a large message to a queue, until it ends."""
    queue.large_senders.add(transaction.number)
    transaction.large_to.add(queue.number)


def forget_sends(context: Context, transaction: OpenTransaction) -> None:
    """Forget what an ended transaction has sent."""
    for number in transaction.large_to:
        queue = context.state.queues.get(number)
        if queue is not None:
            queue.large_senders.discard(transaction.number)


def _holder_of_parts(queue: StoredQueue) -> StoredQueue | None:
    """The queue itself, or the sub-queue of it, that holds parts of large messages."""
    if queue.index.part_count:
        return queue
    for each in queue.sub_queues:
        if each.index.part_count:
            return each
    return None
