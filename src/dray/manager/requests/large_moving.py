"""Large messages that move aside as a whole, at the word of a receiver that holds them.

A receiver moves one that it cannot handle, or one of which header or trailer mean nothing to a
program that is older than the sender's. One fact tells of all parts by the runs of their positions,
so it is shorter than that of their receipt, however many they are (docs/decisions/0152 and 0159).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.errors import Misuse
from dray.manager.facts import LargeMoved, runs_of
from dray.manager.notices import NoticeKind
from dray.manager.queue.part_records import watch_arrivals
from dray.manager.requests.statuses import take_back
from dray.manager.transactions.transactions import opened_by
from dray.model.classes import QueueKind
from dray.model.ids import ManagerId, join_id
from dray.wire.frames import Done, LargeMove

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.queue.queues import StoredQueue
    from dray.manager.session import Session
    from dray.manager.transactions.transactions import Transactions


def handle_large_move(
    transactions: Transactions, session: Session, request_id: int, head: LargeMove
) -> None:
    """Move a large message out of the transaction that holds it, whole and at once."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    target = context.state.queues.numbered(head.target)
    if target.counted is not queue.counted or target is queue:
        raise Misuse(f"a message moves only between {queue.counted.name!r} and its sub-queues")
    _, number = queue.index.held(head.lookup_id) or (b"", 0)
    owner = opened_by(transactions, session, number)
    keys = owner.large.get(queue.number, []) if owner is not None else []
    found = (queue.parts.get(key) for key in keys)
    assembly = next((each for each in found if each and each.header == head.lookup_id), None)
    if owner is None or assembly is None:
        context.answer(session, request_id, Done(0))
        return
    lookup_ids = assembly.lookup_ids()
    keys.remove(assembly.key)
    gone = frozenset(lookup_ids)
    owner.receives[queue.number] = [
        each for each in owner.receives[queue.number] if each not in gone
    ]
    for lookup_id in lookup_ids:
        queue.index.put_back(lookup_id)
    queue.parts.dropped(assembly.key)
    take_back(context, owner, head.status_queue, assembly.key)
    _move(context, queue, lookup_ids, target)
    if head.unreadable:
        sequence_id = join_id(ManagerId(assembly.key.source.hex()), assembly.key.sequence)
        sentence = (
            f"the receiver could not read large message {sequence_id}, which was moved to"
            f" {target.name!r}; receive it from there with a newer program"
        )
        context.notices.add(NoticeKind.UNREADABLE_LARGE, queue.name, sentence)
    context.answer(session, request_id, Done(len(lookup_ids)))


def _move(context: Context, queue: StoredQueue, lookup_ids: list[int], target: StoredQueue) -> None:
    first = target.next_lookup_id
    context.record(LargeMoved(queue.number, target.number, runs_of(lookup_ids), context.now_us))
    if queue.kind is QueueKind.SUB:
        context.follow_up.perhaps_unused[queue.number] = None
    for each in (queue, target):
        context.touch(each)
    watch_arrivals(context.store, target, first)
