"""Other rules hold from now on, also for sessions, streams and receives that began before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.errors import DrayError
from dray.manager.rights.queues import may_deliver, require
from dray.model.access import Access, Verb
from dray.wire.frames import LargeReceive, Receive

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.events import Peer
    from dray.manager.queue.queues import StoredQueue
    from dray.manager.session import Session


def change_access(
    context: Context, access: Access, peer_tokens: dict[Peer, str] | None = None
) -> None:
    """Forget what was found by the rules before; end streams and waits that are allowed no more."""
    context.change_access(access, peer_tokens)
    for session in context.sessions.values():
        session.granted.clear()
        session.posts_to.clear()
        _close_streams(context, session)
    for queue in context.state.queues:
        _refuse_waiters(context, queue)


def _close_streams(context: Context, session: Session) -> None:
    """Close streams; their sources open them again, and are then told why they may not."""
    for stream, number in list(session.streams.items()):
        queue = context.state.queues.get(number)
        if queue is not None and not may_deliver(context, session, queue.name):
            del session.streams[stream]


def _refuse_waiters(context: Context, queue: StoredQueue) -> None:
    for waiter in list(queue.waiters):
        head = waiter.head
        looks = isinstance(head, Receive | LargeReceive) and head.peek
        try:
            require(context, waiter.session, Verb.PEEK if looks else Verb.RECEIVE, queue)
        except DrayError as error:
            queue.waiters.remove(waiter)
            context.refuse(waiter.session, waiter.request_id, error)
