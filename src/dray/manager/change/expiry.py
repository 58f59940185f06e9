"""Expiry: what nobody took in time leaves its queue, and its sender is told why (semantics 1.7).

    where                      class
    outgoing queue             NACK_REACH_QUEUE_TIMEOUT            both timers run there
      sent, not acknowledged   NACK_RECEIVE_TIMEOUT_AT_SENDER      perhaps delivered (KB 290892)
    order queue                NACK_RECEIVE_TIMEOUT_AT_SENDER      delivered, and no word since
    any other                  NACK_RECEIVE_TIMEOUT

A message that a transaction holds waits for the outcome (R12). A message on its way, on a
connection that stands, is left to the destination. So is, for a while, a message that the
destination has: it expires there a little later than here, and the confirmation leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dray.manager.change.commit_fact import CommitFact, forget_parts
from dray.manager.change.ends import warn_of_end
from dray.manager.change.purging import cut_into_portions
from dray.manager.context import Context
from dray.manager.entries import expires_us_of, lookup_id_of, unpack
from dray.manager.queue import (
    DEAD_TRANSACTIONAL,
    ORDER_QUEUE,
    StoredQueue,
    cost_of_leaving,
    weight_of_leaving,
)
from dray.model.classes import MessageClass
from dray.model.expiry import is_over
from dray.model.limits import LEAVING_A_TURN

_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
_LOOK_AGAIN_US = 1_000_000
_WORD_AWAITED_US = 10_000_000
"""A delivered message is not in doubt for so long after its time, while its destination is heard;
word of what expires there takes a way through a busy machine at the most."""


def remove_expired(context: Context) -> None:
    """Take out what has expired, as much as fits a fact and a turn; the rest is due at once."""
    if context.room.has_said_enough:
        return
    room = context.room.portion_bytes
    # A message that was put back has been noted twice.
    expired: dict[int, dict[int, None]] = {}
    for number, lookup_id in islice(context.state.expiries.due(context.now_us), LEAVING_A_TURN):
        queue = context.state.queues.get(number)
        packed = _expired_entry(context, queue, lookup_id) if queue is not None else None
        if packed is not None:
            expired.setdefault(number, {})[lookup_id] = None
            room -= cost_of_leaving(packed)
            context.room.departed += weight_of_leaving(packed)
        if room <= 0 or context.room.departed >= LEAVING_A_TURN:
            break
    if not expired:
        return
    fact = CommitFact(context)
    for number, found in expired.items():
        queue, lookup_ids = context.state.queues.numbered(number), list(found)
        if number == ORDER_QUEUE:
            _in_doubt(context, fact, queue, lookup_ids)
            context.state.awaiting.forget(lookup_ids)
            continue
        if queue.stream is not None:
            lookup_ids = _leave_doubtful(context, fact, queue, lookup_ids)
        forget_parts(context, queue, lookup_ids)
        fact.leave(queue, lookup_ids, _why(queue))
    fact.record()


def give_up_outgoing(context: Context, queue: StoredQueue) -> Iterator[None]:
    """Work: keep in doubt what of an outgoing queue may have arrived; no more word of it can come.

    These are messages that are delivered and wait for their confirmation in the order queue, and
    messages that are sent and not acknowledged.
    """
    assert queue.stream is not None, "an outgoing queue has a stream"
    waiting = context.state.queues.numbered(ORDER_QUEUE)
    unconfirmed = [
        lookup_id_of(packed)
        for packed in waiting.index.everything()
        if unpack(packed).left_by == queue.number
    ]
    for found in cut_into_portions(context, waiting, unconfirmed):
        fact = CommitFact(context)
        _in_doubt(context, fact, waiting, found)
        fact.record()
        yield
    context.state.awaiting.forget(unconfirmed)
    sent = [
        lookup_id
        for lookup_id in map(lookup_id_of, queue.index.available())
        if queue.stream.may_be_delivered(lookup_id)
    ]
    for found in cut_into_portions(context, queue, sent):
        fact = CommitFact(context)
        _leave_doubtful(context, fact, queue, found)
        fact.record()
        yield


def _expired_entry(context: Context, queue: StoredQueue, lookup_id: int) -> bytes | None:
    packed = queue.index.find(lookup_id)
    if packed is None or not is_over(expires_us_of(packed), context.now_us):
        return None
    sent = queue.stream is not None and queue.stream.is_in_flight(lookup_id)
    if sent or (queue.number == ORDER_QUEUE and _word_may_come(context, packed)):
        context.state.expiries.add(context.now_us + _LOOK_AGAIN_US, queue.number, lookup_id)
        return None
    return packed


def _word_may_come(context: Context, packed: bytes) -> bool:
    """Whether the destination of a delivered message can be expected to say how it ended."""
    outgoing = context.state.queues.get(unpack(packed).left_by)
    heard = outgoing is not None and outgoing.stream is not None and outgoing.stream.hears
    return heard and context.now_us < expires_us_of(packed) + _WORD_AWAITED_US


def _why(queue: StoredQueue) -> MessageClass:
    if queue.outgoing:
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT
    return MessageClass.NACK_RECEIVE_TIMEOUT


def _leave_doubtful(
    context: Context, fact: CommitFact, queue: StoredQueue, lookup_ids: list[int]
) -> list[int]:
    """Take out what the destination may have, if it was only forwarded by telling so; the rest."""
    assert queue.stream is not None, "only what has a stream is sent"
    stream = queue.stream
    doubtful = [each for each in lookup_ids if stream.may_be_delivered(each)]
    own = [each for each in doubtful if _is_own(queue, each)]
    _in_doubt(context, fact, queue, own)
    forwarded = [each for each in doubtful if each not in set(own)]
    fact.leave(queue, forwarded, _DOUBT)
    return [each for each in lookup_ids if each not in set(doubtful)]


def _is_own(queue: StoredQueue, lookup_id: int) -> bool:
    packed = queue.index.find(lookup_id)
    return packed is not None and not unpack(packed).route


def _in_doubt(
    context: Context, fact: CommitFact, queue: StoredQueue, lookup_ids: list[int]
) -> None:
    """Keep as dead letters what the destination may have; nobody is told what is not known.

    The operator reads of it, for the message may never have been received.
    """
    for lookup_id in lookup_ids:
        packed = queue.index.find(lookup_id)
        if packed is not None:
            kept = fact.departures.confirmed(packed, _DOUBT)
            sent_by = context.state.queues.get(unpack(packed).left_by) or queue
            kept_in = DEAD_TRANSACTIONAL if kept else 0
            warn_of_end(context, sent_by.name, _DOUBT, kept_in=kept_in)
    fact.drop(queue, lookup_ids)
