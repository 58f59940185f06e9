"""The destination's part in the end of a stream: what was coming by it does not come any more."""

from __future__ import annotations

from dray.delivery.incoming import Position, StreamKey
from dray.manager.context import Context
from dray.manager.events import CloseSession
from dray.manager.facts import StreamEnded
from dray.manager.incoming.ahead import KeptAhead
from dray.manager.peers import Holes, Sources, Strangers
from dray.manager.rights import Rights
from dray.manager.session import Session
from dray.model.limits import ENDS_REMEMBERED_MAX
from dray.wire.peer_frames import EndStream, EndStreamAcked


def handle_end_stream(  # noqa: PLR0917 - the subjects that know of a stream come first
    sources: Sources,
    holes: Holes,
    kept: KeptAhead,
    strangers: Strangers,
    session: Session,
    _request_id: int,
    head: EndStream,
) -> None:
    """End what was going on in a stream, take nothing of it any more, and say so."""
    context = sources.context
    if not strangers.callers.admits(session, head):
        return
    key = StreamKey(session.peer_id, head.stream)
    _shut(sources, strangers.rights, session, head.stream)
    kept.drop_stream(session, head.stream)
    outbox = context.state.outbox
    known = context.state.incoming.position(key) != Position() or outbox.last(key) > 0
    if known and not outbox.has_ended(key):
        going = context.state.arrival_routes.going_by(*key)
        context.record(StreamEnded(*key, context.now_us))
        for number, route, transaction in going:
            queue = context.state.queues.get(route.queue)
            if queue is not None:
                queue.parts.source_went_on(number, transaction, ended=True)
                context.follow_up.touch(queue)
        holes.give_up_those_of(key)
    context.follow_up.untold_ends.forget(key)
    context.answer(session, 0, EndStreamAcked(head.stream))


def _shut(sources: Sources, rights: Rights, session: Session, stream: int) -> None:
    """Take nothing of a stream on this connection, nor on those that its source has given up.

    Here nothing of it comes any more; there it may still be under way.
    """
    sources.confirmed.pop(StreamKey(session.peer_id, stream), None)
    for each in list(rights.sessions.values()):
        if each.peer_id != session.peer_id or each.number > session.number:
            continue
        each.streams.pop(stream, None)
        each.told.pop(stream, None)
        if each is not session:
            each.ended.add(stream)
            if len(each.ended) > ENDS_REMEMBERED_MAX:
                rights.context.effects.append(CloseSession(each.number))


def reopen(context: Context, key: StreamKey) -> None:
    """A stream that had ended is there again: its source was restored from an older backup."""
    if context.state.outbox.has_ended(key):
        context.record(StreamEnded(*key, context.now_us, ended=False))
