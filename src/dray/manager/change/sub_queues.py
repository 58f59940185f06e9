"""Sub-queues come when they are first opened and go when nobody has any use (semantics 1.10).

made       by whoever opens the name; it counts as open on each session that has opened it
open       stays, also while it is empty
used       something is in it, held or not, or a prepared transaction moves something into it
neither    deleted in the same turn, in a fact of its own; after a start nothing is open

One that is made again under the same name is another queue. Its positions begin above all that any
of that name ever had, for they begin at its number, which rises, times 2^32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.manager.facts import QueueDeleted
from dray.model.classes import QueueKind

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.facts import Prepared
    from dray.manager.queue.queues import StoredQueue
    from dray.manager.session import Session


def opened(session: Session, queue: StoredQueue) -> None:
    """A session uses a queue from here on."""
    if queue.kind is QueueKind.SUB and queue.number not in session.opened:
        session.opened.add(queue.number)
        queue.opened += 1


def closed(context: Context, session: Session) -> None:
    """A session has ended."""
    for number in session.opened:
        queue = context.state.queues.get(number)
        if queue is not None:
            queue.opened -= 1
            context.follow_up.perhaps_unused[number] = None


def drop_unused(context: Context) -> None:
    """Delete the sub-queues that nobody has any use for, as many as the turn can tell of."""
    candidates = context.follow_up.perhaps_unused
    while candidates and not context.log_room.has_said_enough:
        number, _ = candidates.popitem()
        queue = context.state.queues.get(number)
        if queue is not None and _is_unused(context, queue):
            context.record(QueueDeleted(number, context.now_us))


def used_by(prepared: Prepared) -> set[int]:
    """The queues that a prepared transaction needs in order to commit."""
    used = {number for number, _ in (*prepared.sends, *prepared.receives)}
    return used | {number for source, target, _ in prepared.moves for number in (source, target)}


def _is_unused(context: Context, queue: StoredQueue) -> bool:
    if queue.kind is not QueueKind.SUB or queue.opened or queue.waiters or len(queue.index):
        return False
    return not any(queue.number in used_by(each) for each in context.state.prepared.values())
