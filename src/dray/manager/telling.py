"""Confirmations at both ends: telling the sources of streams, and acting on what one is told.

A manager that has forwarded a message is the source of its stream and not its origin: what it is
told of the message it tells on, to where that came from, in the fact that hears it. So word
travels back hop by hop, over the same connections and with the same durability (semantics 2.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.delivery.incoming import StreamKey
from dray.errors import ProtocolError
from dray.manager.costs import KEPT_BYTES, TOLD_BYTES
from dray.manager.departures import KEPT_THERE, Wish
from dray.manager.facts import Confirmation
from dray.manager.facts import ConfirmationsTaken as FactTaken
from dray.manager.happening import Happening
from dray.manager.index import lookup_id_of
from dray.manager.system import ORDER_QUEUE
from dray.model.classes import MessageClass
from dray.model.limits import CONFIRMATIONS_AHEAD_MAX, HOPS_MAX
from dray.wire.frames import Confirmations, ConfirmationsTaken, Confirmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dray.manager.context import Context, Session
    from dray.manager.queues import Queue
    from dray.manager.ways import Way

_HEARD_AT_ONCE = 1_024
"""Confirmations in one fact; each may bring a message of the manager's own and move another."""


def act_on(
    context: Context,
    queue: Queue,
    first: int,
    told: list[Confirmed],
    *,
    finished: Callable[[int], None],
) -> Iterator[None]:
    """Work: act once on what a destination tells of an outgoing queue.

    `finished` is told how far all is heard then.
    """
    heard = context.state.heard.get(queue.number, 0)
    news = told[max(0, heard + 1 - first) :]
    while news and context.state.queues.get(queue.number) is queue:
        portion, news = _portion(context, news)
        heard += len(portion)
        _hear(context, queue, portion, heard)
        yield
    finished(heard)


def _portion(context: Context, news: list[Confirmed]) -> tuple[list[Confirmed], list[Confirmed]]:
    """What of the news one fact can act upon, one at least, and the rest."""
    room, count = context.portion_bytes, 0
    for each in news[:_HEARD_AT_ONCE]:
        room -= TOLD_BYTES if each.administration_queue else KEPT_BYTES
        if room < 0 and count:
            break
        count += 1
    return news[:count], news[count:]


def _hear(context: Context, queue: Queue, told: Sequence[Confirmed], upto: int) -> None:
    """Journal, dead-letter or forget messages by what became of them; acknowledge or tell on."""
    happening = Happening(context)
    leaving: list[int] = []
    for each in told:
        origin = each.origin or context.state.manager_id
        if origin == context.state.manager_id:
            leaving += _own(context, happening, each)
            continue
        way = _way_back(context, origin, queue)
        if way is not None and each.hops < HOPS_MAX:
            passed_on = Confirmation(
                each.number,
                each.message_class,
                each.administration_queue,
                each.label,
                way.told_origin,
                each.hops + 1,
                each.sequence,
            )
            happening.departures.pass_on(way, passed_on)
    happening.drop(context.state.queues.numbered(ORDER_QUEUE), leaving)
    happening.record((queue.number, upto))


def _way_back(context: Context, origin: str, queue: Queue) -> Way | None:
    """By which way to tell on what became of an origin's message: the first that is still there.

    Where routes go in a circle, messages come again by later ways; word that went back by such a
    one would go round for ever. A way that was given up for another one has ended.
    """
    ways = context.state.ways.back(origin, queue.number)
    outbox = context.state.outbox
    standing = (way for way in ways if not outbox.has_ended(StreamKey(way.source, way.stream)))
    return next(standing, ways[-1] if ways else None)


def _own(context: Context, happening: Happening, told: Confirmed) -> list[int]:
    """Of a message that was sent here; gives the place at which it waits no longer."""
    why = told.message_class & ~KEPT_THERE
    if told.administration_queue:
        # A large message is known to its sender by the number of its header.
        message_id = context.transaction_id(told.sequence or told.number)
        wish = Wish(told.administration_queue, why, message_id, told.label)
        happening.departures.wishes.append(wish)
    if why == MessageClass.ACK_REACH_QUEUE:
        return []
    packed = context.awaiting.take(told.number)
    if packed is None:
        return []
    if not told.message_class & KEPT_THERE:
        happening.departures.confirmed(packed, why)
    return [lookup_id_of(packed)]


def handle_taken(
    context: Context, session: Session, _request_id: int, head: ConfirmationsTaken
) -> None:
    """The source has what it was told: forget it, and go on telling."""
    key = StreamKey(session.peer_id, head.stream)
    if head.upto > context.state.outbox.last(key):
        raise ProtocolError("confirmations were taken that were never made")
    context.record(FactTaken(key.source, key.stream, head.upto))
    tell_source(context, key)


def tell_source(context: Context, key: StreamKey) -> None:
    """Tell a source what became of its messages, a bounded number ahead of what it has taken."""
    session = context.confirmed.get(key)
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
        context.answer(session, 0, Confirmations(key.stream, first, news))
