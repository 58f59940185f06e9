"""The frames of an outgoing stream: the records of its messages, or that none come any more."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from dray.delivery.events import PassOver, Transmit
from dray.manager.change import only_intact, record_of
from dray.manager.context import MICROSECONDS, Context
from dray.manager.disk import stream_bodies_in, stream_envelopes_in
from dray.manager.entries import entries_in, positions_in, unpack
from dray.manager.events import Body
from dray.manager.queue import StoredQueue, is_sent_ahead, taken_from_ahead
from dray.wire.peer_frames import Data, Going, Passed, TruncatedTransaction


def data(
    context: Context, queue: StoredQueue, effect: Transmit, *, check: bool
) -> list[tuple[Data, Body]]:
    """The frames with the messages at some positions that are still there and can be read.

    One, but for messages whose records were sent ahead of their commit: frames of these have none.
    With `check` every record is read first, since the peer has refused something.
    """
    # They follow each other in the queue.
    packed = queue.index.between(effect.lookup_ids[0] - 1, effect.lookup_ids[-1])
    if check:
        packed = b"".join(only_intact(context, queue, entries_in(packed)))
        if not packed:
            return []
    if not queue.ahead:
        return [_frame(context, queue, effect, packed, ahead=False)]
    frames = []
    for ahead, entries in groupby(
        entries_in(packed), lambda each: is_sent_ahead(queue.ahead, unpack(each))
    ):
        run = b"".join(entries)
        frames.append(_frame(context, queue, effect, run, ahead=ahead))
        effect = effect._replace(previous=max(positions_in(run)) - effect.base)
        if ahead:
            for each in map(unpack, entries_in(run)):
                taken_from_ahead(queue, each.transaction, each.ordinal)
    return frames


def _frame(
    context: Context, queue: StoredQueue, effect: Transmit, packed: bytes, *, ahead: bool
) -> tuple[Data, Body]:
    envelopes = stream_envelopes_in(packed, effect.base, partial(_left_us, context))
    short = _truncated(context, queue, effect, packed) if len(queue.truncated_transactions) else []
    head = Data(queue.number, effect.sequence_id, effect.previous, envelopes, short, ahead)
    return head, () if ahead else stream_bodies_in(context.store, packed)


def passed(context: Context, queue: StoredQueue, effect: PassOver) -> list[tuple[Passed, Body]]:
    """The frame that tells that nothing up to a number comes any more, if that is so."""
    if queue.index.aside_count:
        # A message that cannot be read has not gone: it may be mended.
        return []
    going = [Going(*each) for each in context.state.arrival_routes.going_into(queue.number)]
    return [(Passed(queue.number, *effect, going), ())]


def _truncated(
    context: Context, queue: StoredQueue, effect: Transmit, packed: bytes
) -> list[TruncatedTransaction]:
    """Origins with a transaction truncated between the last frame and the end of this one."""
    after, upto = effect.base + effect.previous, max(positions_in(packed), default=0)
    routes = context.state.arrival_routes
    return [
        TruncatedTransaction(position - effect.base, route.origin if route is not None else "")
        for position, number in queue.truncated_transactions.between(after, upto)
        for route in (routes.numbered(number),)
    ]


def _left_us(context: Context, packed: bytes) -> tuple[int, int]:
    """The time that a message has to reach its queue, and may stay there (-1: for ever).

    Durations, so that the clocks of managers need not agree: what was used up before this
    manager is what is missing here of the shorter of both times.
    """
    entry = unpack(packed)
    left_us = max(0, entry.expires_us - context.now_us)
    _, properties = record_of(context.store, entry)
    received = properties.time_to_be_received
    if received is None:
        return left_us, -1
    reach = properties.time_to_reach_queue
    shorter = received if reach is None else min(received, reach)
    return left_us, left_us + int(received * MICROSECONDS) - int(shorter * MICROSECONDS)
