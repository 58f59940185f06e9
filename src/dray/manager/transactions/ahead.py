"""The source's part in what travels ahead of a commit: which pieces, from where, and until when.

`dray.delivery.ahead` decides for one transaction in one outgoing queue. Here the pieces are found
among what the transaction has staged, and the frames are made. The bytes of a piece keep their
place until the destination has answered: the kernel may read them until then, also after an abort.
"""

from __future__ import annotations

from typing import assert_never

from dray.delivery.ahead import (
    AheadEvent,
    CommitCame,
    DropPieces,
    GivenUpAhead,
    NothingKept,
    PieceKept,
    PieceLeftOut,
    PieceStaged,
    SendPiece,
)
from dray.delivery.conversation import ConversationState
from dray.delivery.events import LinkLost
from dray.manager.context import Context
from dray.manager.entries import ORDINAL_MAX, SentAhead, Staged
from dray.manager.events import LinkSend
from dray.manager.queue import StoredQueue
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.model.classes import Part
from dray.wire.peer_frames import Ahead, AheadDropped, AheadKept


def staged_ahead(
    context: Context, queue: StoredQueue, transaction: OpenTransaction, count: int
) -> None:
    """Send what can travel ahead of the last `count` records that a transaction has staged."""
    staged, number = transaction.sends[queue.number], transaction.number
    worth_it = [
        ordinal
        for ordinal in range(len(staged) - count + 1, min(len(staged), ORDINAL_MAX) + 1)
        if staged[ordinal - 1].part == Part.FRAGMENT and _may_travel(context, staged[ordinal - 1])
    ]
    stream = queue.stream
    if not worth_it or stream is None or queue.paused:
        return
    if stream.stage is not ConversationState.OPEN:
        # The first message of a queue: what is staged when its stream is open travels ahead.
        if not stream.expects_messages:
            stream.expects_messages = True
            context.follow_up.touch(queue)
        return
    if number not in queue.ahead:
        queue.ahead[number] = SentAhead(staged)
    for ordinal in worth_it:
        _steer(context, queue, number, PieceStaged(ordinal))


def _may_travel(context: Context, record: Staged) -> bool:
    """Whether a fragment is long enough, and outlives a restart."""
    return record.extent.length >= context.config.ahead_bytes_min and not record.express


def committed_ahead(context: Context, transaction: OpenTransaction) -> None:
    """Let the messages of a committed transaction name the pieces that are there."""
    if transaction.sends:
        _tell_all(context, transaction, CommitCame())


def given_up_ahead(context: Context, transaction: OpenTransaction) -> None:
    """Have the destinations give up what came ahead of a commit that does not come."""
    if transaction.sends:
        _tell_all(context, transaction, GivenUpAhead())


def _tell_all(context: Context, transaction: OpenTransaction, event: AheadEvent) -> None:
    for number in transaction.sends:
        queue = context.state.queues.get(number)
        if queue is None:
            continue
        if queue.stream is not None:
            queue.stream.expects_messages = False
        if transaction.number in queue.ahead:
            _steer(context, queue, transaction.number, event)


def answered_ahead(context: Context, queue: StoredQueue, head: AheadKept) -> bool:
    """Take a destination's word about pieces; whether it did not take a message for want of one."""
    if not head.transaction:
        _steer_all(context, queue, NothingKept())
        return True
    if head.transaction in queue.ahead:
        event: AheadEvent = NothingKept()
        if head.ordinal:
            event = PieceKept(head.ordinal) if head.kept else PieceLeftOut(head.ordinal)
        _steer(context, queue, head.transaction, event)
    return False


def forget_ahead(context: Context, queue: StoredQueue) -> None:
    """The connection over which the pieces of an outgoing queue went is lost."""
    _steer_all(context, queue, LinkLost())


def _steer_all(context: Context, queue: StoredQueue, event: AheadEvent) -> None:
    for number in list(queue.ahead):
        _steer(context, queue, number, event)


def _steer(context: Context, queue: StoredQueue, number: int, event: AheadEvent) -> None:
    pieces = queue.ahead[number]
    assert queue.route is not None, "only outgoing queues have pieces ahead"
    peer = queue.route.peer
    for effect in pieces.handle(event, context.now):
        match effect:
            case SendPiece(ordinal):
                record = pieces.staged[ordinal - 1]
                pieces.pinned[ordinal] = record.extent.file
                context.store.pin(record.extent.file)
                head = Ahead(queue.number, number, ordinal, record.crc)
                context.effects.append(LinkSend(peer, head, (record.extent,)))
            case DropPieces():
                context.effects.append(LinkSend(peer, AheadDropped(queue.number, number)))
            case _:
                assert_never(effect)
    for ordinal in [each for each in pieces.pinned if each not in pieces.under_way]:
        context.store.unpin(pieces.pinned.pop(ordinal))
    if pieces.is_done:
        del queue.ahead[number]
