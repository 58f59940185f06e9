"""Confirmations at both ends: telling the sources of streams, and acting on what one is told.

A manager that has forwarded a message is the source of its stream and not its origin: what it is
told of the message it tells on, to where that came from, in the fact that hears it. So word
travels back hop by hop, over the same connections and with the same durability (semantics 2.6).

A source hears that a message was refused before it believes the order ack that covers it
(`links.py`). So the message is still in the outgoing queue then, and becomes a dead letter from
there, unless its sender did not want it. A manager that forwards does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from dray.delivery.events import OrderAcked
from dray.delivery.incoming import StreamKey
from dray.errors import ProtocolError
from dray.manager.change import (
    KEPT_THERE,
    CommitFact,
    delivered_tails,
    is_counted_end,
    is_refusal,
    refusal_code,
    refusal_sentence,
    warn_of_end,
)
from dray.manager.context import Context
from dray.manager.entries import (
    Wish,
    entries_numbered,
    lookup_id_of,
    number_of,
    route_of,
    tail_of,
    unpack,
)
from dray.manager.facts import (
    Confirmation,
    ConfirmationsAbove,
    ConfirmationsTaken,
    Delivered,
    pack_lookups,
)
from dray.manager.peers import possession
from dray.manager.peers.missing_queues import MissingQueues
from dray.manager.peers.waiting_for_room import WaitingForRoom
from dray.manager.queue import (
    DEAD_TRANSACTIONAL,
    KEPT_BYTES,
    ORDER_QUEUE,
    TOLD_BYTES,
    ArrivalRoute,
    StoredQueue,
)
from dray.manager.session import Session
from dray.model.classes import MessageClass
from dray.model.limits import (
    CONFIRMATIONS_AHEAD_MAX,
    END_COUNT_MAX,
    END_COUNTS_MAX,
    HOPS_MAX,
    LINK_WINDOW_MESSAGES,
)
from dray.wire.peer_frames import Confirmations, ConfirmationsAcked, Confirmed, EndCount, EndCounts

_HEARD_AT_ONCE = 1_024
"""Confirmations in one fact; each may bring a message of the manager's own and move another."""


class Sources:
    """The sources of streams: over which session each is told of its messages, and who waits."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.confirmed: dict[StreamKey, Session] = {}
        """Over which session each incoming stream's source is told of its messages."""
        self.waiting_for_room = WaitingForRoom(context.state, context.room)
        """Streams that the computer's quota or the disk had no room for."""
        self.missing_queues = MissingQueues(context.state.queues)
        """Streams that were refused because there is no such queue."""

    def forget(self, session: Session) -> None:
        """A connection has ended."""
        self.waiting_for_room.forget(session)
        self.missing_queues.forget(session)
        for stream in session.told:
            key = StreamKey(session.peer_id, stream)
            if self.confirmed.get(key) is session:
                del self.confirmed[key]

    def handle_acked(self, session: Session, _request_id: int, head: ConfirmationsAcked) -> None:
        """The source has what it was told: forget it, and go on telling."""
        context = self.context
        if not possession.may_speak_of(context, session, head):
            return
        key = StreamKey(session.peer_id, head.stream)
        if head.upto > context.state.outbox.last(key):
            raise ProtocolError("confirmations were taken that were never made")
        context.record(ConfirmationsTaken(key.source, key.stream, head.upto))
        self.tell(key)

    def begin_above(self, session: Session, key: StreamKey) -> None:
        """Tell what a source has not heard by ordinals that it does not know.

        Another store told it what it has heard: another copy of this one, or that of another
        manager at this address. It would skip what is told by these ordinals anew, and count a
        message as delivered that did not enter.
        """
        heard = session.heard.pop(key.stream, 0)
        if heard > self.context.state.outbox.taken_upto(key):
            self.context.record(ConfirmationsAbove(key.source, key.stream, heard))

    def tell(self, key: StreamKey) -> None:
        """Tell a source what became of its messages; a bounded number ahead of what it took."""
        context = self.context
        session = self.confirmed.get(key)
        if session is None:
            return
        outbox = context.state.outbox
        room = CONFIRMATIONS_AHEAD_MAX - (session.told[key.stream] - outbox.taken_upto(key))
        first, told = outbox.after(key, session.told[key.stream], max(0, room))
        if told:
            session.told[key.stream] = first + len(told) - 1
            news = [
                Confirmed(
                    each.number,
                    each.message_class,
                    each.administration_queue,
                    each.label,
                    each.origin,
                    each.hops,
                    each.sequence,
                )
                for each in told
            ]
            receipt = context.state.identity.receipt()
            context.answer(session, 0, Confirmations(key.stream, first, news, receipt))

    def tell_of_ends(self) -> None:
        """Tell sources how many of their messages ended, of which their senders asked nothing."""
        context = self.context
        for key, counts in context.follow_up.untold_ends.take(context.now, self.confirmed):
            context.answer(self.confirmed[key], 0, EndCounts(key.stream, counts))


def note_delivered(context: Context, queue: StoredQueue, acked: OrderAcked) -> bool:
    """Note what was delivered, in as many facts as it takes; whether the log took it all now.

    A window of messages always fits; only after a restore it may be more (`State.delivery`).
    """
    assert queue.stream is not None, "only what has a stream delivers"
    reached = 0
    while reached < acked.upto:
        if reached and context.room.has_said_enough:
            return False
        reached, awaiting = delivered_tails(context, queue, acked.upto)
        stayed = pack_lookups(queue.index.aside_between(queue.stream.floor, reached))
        now_us, receipt = context.now_us, acked.receipt
        context.record(Delivered(queue.number, reached, now_us, awaiting, stayed, receipt))
        if awaiting:
            context.state.awaiting.look()
    _end_refused_parts(context, queue)
    return True


def _end_refused_parts(context: Context, queue: StoredQueue) -> None:
    """No refused part follows of a transaction that an outgoing queue has delivered."""
    dead = context.state.queues.numbered(DEAD_TRANSACTIONAL)
    if dead.index.part_count:
        first = queue.index.first()
        going = 0 if first is None else unpack(first).transaction
        dead.parts.source_went_on(0, going, ended=first is None)
        context.follow_up.touch(dead)


def act_on(
    context: Context,
    queue: StoredQueue,
    head: Confirmations,
    *,
    finished: Callable[[int], None],
) -> Iterator[None]:
    """Work: act once on what a destination tells of an outgoing queue.

    `finished` is told how far all is heard then.
    """
    # Confirmations between were told in an incarnation that was undone, here or there.
    heard = max(context.state.heard.get(queue.number, 0), head.first - 1)
    news = head.confirmations[heard + 1 - head.first :]
    while news and context.state.queues.get(queue.number) is queue:
        portion, news = _portion(context, news)
        heard += len(portion)
        _hear(context, queue, portion, upto=heard, receipt=head.receipt)
        yield
    finished(heard)


def _portion(context: Context, news: list[Confirmed]) -> tuple[list[Confirmed], list[Confirmed]]:
    """The part of the news that one fact can hold, at least one, and the rest."""
    room, count = context.room.portion_bytes, 0
    for each in news[:_HEARD_AT_ONCE]:
        room -= TOLD_BYTES if each.administration_queue else KEPT_BYTES
        if room < 0 and count:
            break
        count += 1
    return news[:count], news[count:]


def _hear(
    context: Context, queue: StoredQueue, told: Sequence[Confirmed], *, upto: int, receipt: bytes
) -> None:
    """Journal, dead-letter or forget messages by what became of them; acknowledge or tell on."""
    fact = CommitFact(context)
    leaving: list[int] = []
    undelivered = _undelivered(context, queue, told)
    for each in told:
        origin = each.origin or context.state.manager_id
        packed = undelivered.get((origin, each.number))
        if origin == context.state.manager_id:
            leaving += _own(context, fact, queue, each, undelivered=packed)
            continue
        there = each.message_class & KEPT_THERE
        if packed is not None and not there:
            there = KEPT_THERE * _keep_forwarded(
                context, fact, queue, each.message_class, packed=packed
            )
        route = _route_back(context, origin, queue)
        if route is not None and each.hops < HOPS_MAX:
            passed_on = Confirmation(
                each.number,
                each.message_class | there,
                each.administration_queue,
                each.label,
                route.told_origin,
                each.hops + 1,
                each.sequence,
            )
            fact.departures.pass_on(route, passed_on)
    fact.drop(context.state.queues.numbered(ORDER_QUEUE), leaving)
    if undelivered:
        fact.drop(queue, [lookup_id_of(packed) for packed in undelivered.values()])
    fact.record((queue.number, upto), receipt)


def _keep_forwarded(
    context: Context, fact: CommitFact, queue: StoredQueue, why: int, *, packed: bytes
) -> bool:
    """Keep what the next manager refuses, unless its source does; whether it is kept here."""
    if not is_refusal(why):
        return False
    _note_refusal(context, queue, why)
    kept = fact.departures.refused(packed, why)
    if kept:
        warn_of_end(context, queue.name, why, kept_in=DEAD_TRANSACTIONAL)
    return kept


def _note_refusal(context: Context, queue: StoredQueue, why: int) -> None:
    assert queue.stream is not None, "only what has a stream is refused"
    queue.stream.refusals.messages_refused(refusal_code(why), refusal_sentence(why), 1, context.now)


def _undelivered(
    context: Context, queue: StoredQueue, told: Sequence[Confirmed]
) -> dict[tuple[str, int], bytes]:
    """Confirmed messages that the order ack has not taken out of the outgoing queue yet.

    Packed entries by origin and number. Word outruns the order ack if that one waits for it.
    """
    stream = queue.stream
    assert stream is not None, "only what has a stream is told of its messages"
    waits = queue.number in context.state.awaiting.order_acks
    wanted = {each.number for each in told if each.message_class != MessageClass.ACK_REACH_QUEUE}
    if not wanted or not (waits or any(is_refusal(each.message_class) for each in told)):
        return {}
    own, routes = context.state.manager_id, context.state.arrival_routes
    origins = {(each.origin or own, each.number) for each in told}
    found: dict[tuple[str, int], bytes] = {}
    for first in range(stream.floor, stream.sent_upto, LINK_WINDOW_MESSAGES):
        upto = min(first + LINK_WINDOW_MESSAGES, stream.sent_upto)
        for each in entries_numbered(queue.index.between(first, upto), wanted):
            route = routes.numbered(route_of(tail_of(each)))
            key = (own if route is None else route.origin, number_of(each))
            if key in origins:
                found[key] = each
        if len(found) == len(wanted):
            break
    return found


def _route_back(context: Context, origin: str, queue: StoredQueue) -> ArrivalRoute | None:
    """The route by which to tell what became of an origin's message: the first that is still there.

    Where routes go in a circle, messages come again by later ones, and a confirmation that went
    back by such a one would go round for ever. A route that was given up for another has ended.
    """
    routes = context.state.arrival_routes.back(origin, queue.number)
    outbox = context.state.outbox
    standing = (
        route for route in routes if not outbox.has_ended(StreamKey(route.source, route.stream))
    )
    return next(standing, routes[-1] if routes else None)


def _own(
    context: Context,
    fact: CommitFact,
    queue: StoredQueue,
    told: Confirmed,
    *,
    undelivered: bytes | None,
) -> list[int]:
    """Confirm a message that was sent here; the place where it no longer waits."""
    why, kept_there = told.message_class & ~KEPT_THERE, bool(told.message_class & KEPT_THERE)
    if told.administration_queue:
        # A large message is known to its sender by the number of its header.
        message_id = context.state.transaction_id(told.sequence or told.number)
        wish = Wish(told.administration_queue, why, message_id, told.label)
        fact.departures.wishes.append(wish)
    if why == MessageClass.ACK_REACH_QUEUE:
        return []
    if undelivered is not None and is_refusal(why):
        _note_refusal(context, queue, why)
        kept = not kept_there and fact.departures.refused(undelivered, why)
        kept_in = DEAD_TRANSACTIONAL if kept else 0
        warn_of_end(context, queue.name, why, kept_in=kept_in, kept_there=kept_there)
        return []
    packed = context.state.awaiting.take(told.number)
    kept = not kept_there and fact.departures.confirmed(packed or undelivered, why)
    warn_of_end(
        context,
        queue.name,
        why,
        kept_in=DEAD_TRANSACTIONAL if kept else 0,
        kept_there=kept_there,
        came_late=packed is None and undelivered is None,
    )
    return [lookup_id_of(packed)] if packed is not None else []


def is_sensible(counts: Sequence[EndCount]) -> bool:
    """Whether a queue manager may say such counts."""
    return len(counts) <= END_COUNTS_MAX and all(
        is_counted_end(each.message_class)
        and 0 < each.count <= END_COUNT_MAX
        and 0 <= each.hops < HOPS_MAX
        for each in counts
    )


def hear_of_ends(context: Context, queue: StoredQueue, counts: Sequence[EndCount]) -> None:
    """Warn of messages that ended at the destination, and tell on what others sent."""
    for message_class, count, origin, hops in map(msgspec.structs.astuple, counts):
        if origin in ("", context.state.manager_id):
            kept_there = bool(message_class & KEPT_THERE)
            warn_of_end(context, queue.name, message_class, kept_there=kept_there, times=count)
            continue
        route = _route_back(context, origin, queue)
        if route is not None and hops + 1 < HOPS_MAX:
            key = StreamKey(route.source, route.stream)
            context.follow_up.untold_ends.add(
                key, message_class, count, route.told_origin, hops=hops + 1
            )
