"""Acknowledgment messages: what the sender is told in its administration queue (semantics 1.6).

An acknowledgment carries the class of what happened, the id of the original as its correlation id,
and no body. It is never acknowledged, journaled or dead-lettered itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import DrayError
from dray.manager.change.names import resolve_queue
from dray.manager.context import Context
from dray.manager.entries import Wish
from dray.manager.notices import NoticeKind
from dray.manager.queue import StoredQueue
from dray.model.classes import Acknowledge, MessageClass, QueueKind
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind

_NEGATIVE = 0x8000
_OF_RECEIVE = 0x4000
_LOST = NoticeKind.ACKNOWLEDGMENT_LOST


def wanted_by(asked: Acknowledge, message_class: int) -> bool:
    """Whether the sender asked to be told of a class. Nobody is told of a doubt."""
    if message_class == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
        return False
    if message_class & _NEGATIVE:
        wish = (
            Acknowledge.NEGATIVE_RECEIVE
            if message_class & _OF_RECEIVE
            else Acknowledge.NEGATIVE_ARRIVAL
        )
    elif message_class == MessageClass.ACK_REACH_QUEUE:
        wish = Acknowledge.POSITIVE_ARRIVAL
    else:
        wish = Acknowledge.POSITIVE_RECEIVE
    return bool(asked & wish)


def addressed(context: Context, wishes: Iterable[Wish]) -> list[tuple[StoredQueue, Wish]]:
    """Find the administration queues; the operator is told of those that are not there."""
    found = []
    for wish in wishes:
        try:
            queue = resolve_queue(context, wish.administration_queue)
        except DrayError as error:
            sentence = f"an acknowledgment message was not sent: {error}"
            context.notices.add(_LOST, wish.administration_queue, sentence)
            continue
        if queue.kind in (QueueKind.PRIVATE, QueueKind.OUTGOING):
            found.append((queue, wish))
        else:
            sentence = (
                f"no acknowledgment message can be sent to a {queue.kind} queue; name a queue of"
                " your own as the administration queue"
            )
            context.notices.add(_LOST, wish.administration_queue, sentence)
    return found


def place(context: Context, queue: StoredQueue, wish: Wish) -> tuple[Extent, int, int]:
    """Write an acknowledgment message into the heap; gives place, CRC32C and number."""
    recoverable = wish.kind is not Kind.EXPRESS
    message = Message(
        label=wish.label,
        correlation_id=wish.message_id,
        recoverable=recoverable,
        destination=queue.name if queue.outgoing else None,
    )
    kind = Kind.RECOVERABLE if recoverable or not queue.takes_express else Kind.EXPRESS
    return context.own_messages.place(message, kind)
