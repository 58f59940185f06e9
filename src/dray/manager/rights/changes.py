"""Other rules hold from now on, also for sessions, streams and receives that began before."""

from __future__ import annotations

from dray.errors import DrayError
from dray.manager.queue import StoredQueue
from dray.manager.rights.queues import may_deliver, require
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.access import Access, Verb
from dray.wire.large_frames import LargeReceive
from dray.wire.message_frames import Receive


def change_access(rights: Rights, access: Access) -> None:
    """Forget what was found by the rules before; end streams and waits that are allowed no more."""
    rights.access = access
    for session in rights.sessions.values():
        session.granted.clear()
        session.posts_to.clear()
        _close_streams(rights, session)
    for queue in rights.context.state.queues:
        _refuse_waiters(rights, queue)


def _close_streams(rights: Rights, session: Session) -> None:
    """Close streams; their sources open them again, and are then told why they may not."""
    for stream, number in list(session.streams.items()):
        queue = rights.context.state.queues.get(number)
        if queue is not None and not may_deliver(rights, session, queue.name):
            del session.streams[stream]


def _refuse_waiters(rights: Rights, queue: StoredQueue) -> None:
    for waiter in list(queue.waiters):
        head = waiter.head
        looks = isinstance(head, Receive | LargeReceive) and head.peek
        try:
            require(rights, waiter.session, Verb.PEEK if looks else Verb.RECEIVE, queue)
        except DrayError as error:
            queue.waiters.remove(waiter)
            rights.context.refuse(waiter.session, waiter.request_id, error)
