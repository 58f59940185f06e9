"""Sub-queues come when they are first opened and go when nobody has any use (semantics 1.10).

So do outgoing queues that have never carried a message: a name that somebody tried costs nothing.

made       by whoever opens the name; it counts as open on each session that has opened it
open       stays, also while it is empty
used       something is in it, held or not, or a prepared transaction moves something into it;
           an outgoing queue also if it ever carried a message, is paused, has a setting that
           somebody gave it, or waits for an upload
neither    deleted in the same turn, in a fact of its own, and very many with the next ticks;
           after a start nothing is open

One that is made again under the same name is another queue. Its positions begin above all that any
of that name ever had, for they begin at its number, which rises, times 2^32.
"""

from __future__ import annotations

from typing import Final

from dray.errors import Misuse
from dray.manager.context import Context
from dray.manager.facts import Prepared, QueueDeleted
from dray.manager.queue import StoredQueue
from dray.manager.session import Session
from dray.model.callers import Caller
from dray.model.classes import QueueKind
from dray.model.limits import QUEUES_MAX, QUEUES_SHARE, UNUSED_OUTGOING_MAX, UNUSED_QUEUES_A_TURN
from dray.model.queue import QueueOptions

GO_UNUSED: Final = frozenset({QueueKind.SUB, QueueKind.OUTGOING})
AS_MADE: Final = QueueOptions(transactional=True)
"""The settings of an outgoing queue that nobody has changed."""


def check_outgoing_share(context: Context, session: Session) -> None:
    """Refuse a caller one more outgoing queue while too many of its queues carried nothing."""
    place, tried = session.caller.place, context.follow_up.tried
    if tried.count(place) < UNUSED_OUTGOING_MAX:
        return
    for number in tried.of(place):
        _forget_if_used(context, number)
    count = tried.count(place)
    if count >= UNUSED_OUTGOING_MAX:
        raise Misuse(
            f"{session.caller.name} has opened {count} outgoing queues and sent nothing to them;"
            " close the programs that opened them, or send to them, before you open another one"
        )


def check_queue_share(context: Context, caller: Caller) -> None:
    """Refuse a caller one more queue when it has made its share of all that there may be."""
    made, share = context.follow_up.made, QUEUES_MAX // QUEUES_SHARE
    if caller.owner or made.count(caller.place) < share:
        return
    for number in made.of(caller.place):
        if context.state.queues.get(number) is None:
            made.discard(number)
    if made.count(caller.place) >= share:
        raise Misuse(
            f"{caller.name} has made {share} queues and sub-queues; delete some before you make"
            " another one"
        )


def note_queues_made(context: Context, caller: Caller, first: int) -> None:
    """Count the queues that were made from a number on for their caller."""
    made = context.follow_up.made
    if caller.owner:
        return
    if len(made) > 2 * QUEUES_MAX:
        for number in made:
            if context.state.queues.get(number) is None:
                made.discard(number)
    for number in range(first, context.state.next_queue):
        made.add(number, caller.place)


def _forget_if_used(context: Context, number: int) -> None:
    queue = context.state.queues.get(number)
    if queue is None or queue.carried:
        context.follow_up.tried.discard(number)


def begin_use_of_queue(session: Session, queue: StoredQueue) -> None:
    """A session uses a queue from here on."""
    if queue.kind in GO_UNUSED and queue.number not in session.opened:
        session.opened.add(queue.number)
        queue.opened += 1


def end_use_of_queues(context: Context, session: Session) -> None:
    """A session has ended."""
    for number in session.opened:
        queue = context.state.queues.get(number)
        if queue is not None:
            queue.opened -= 1
            context.follow_up.perhaps_unused[number] = None
        _forget_if_used(context, number)


def drop_unused_queues(context: Context) -> None:
    """Delete the queues that nobody has any use for, as many as the turn has time to tell of."""
    candidates = context.follow_up.perhaps_unused
    needed: set[int] | None = None
    for _ in range(min(len(candidates), UNUSED_QUEUES_A_TURN)):
        if context.room.has_said_enough:
            return
        number, _ = candidates.popitem()
        queue = context.state.queues.get(number)
        if queue is None or not _is_unused(context, queue):
            continue
        if needed is None:
            # Once for all of the turn: there may be very many.
            needed = set().union(*map(queues_used_by, context.state.prepared.values()))
        if number not in needed:
            context.record(QueueDeleted(number, context.now_us))
            context.follow_up.tried.discard(number)


def queues_used_by(prepared: Prepared) -> set[int]:
    """The queues that a prepared transaction needs in order to commit."""
    used = {number for number, _ in (*prepared.sends, *prepared.receives)}
    return used | {number for source, target, _ in prepared.moves for number in (source, target)}


def _is_unused(context: Context, queue: StoredQueue) -> bool:
    if queue.kind not in GO_UNUSED or queue.opened or queue.waiters or len(queue.index):
        return False
    if queue.outgoing and (queue.carried or queue.paused or queue.options != AS_MADE):
        return False
    return not any(each.queue == queue.number for each in context.state.uploads)
