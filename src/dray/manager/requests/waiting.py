"""Receives that wait: who is served when something comes, and who is told that nothing came."""

from __future__ import annotations

from dray.errors import DrayError, StorePoisoned
from dray.manager.queue import Lookup, StoredQueue
from dray.manager.requests.large_messages import LargeReceives
from dray.manager.requests.moving import receive_transaction_now
from dray.manager.requests.receiving import Receives, nothing_came
from dray.manager.session import IdKind, Session, Waiter
from dray.manager.state import Deadlines, soonest
from dray.wire.message_frames import Receive, ReceiveTransaction


class Waiters:
    """Waiting receives stand at their queues; this knows when the first of them gives up."""

    def __init__(self, receives: Receives, large: LargeReceives) -> None:
        self._receives = receives
        self._large = large
        self._context = receives.context
        self.lookups = receives.lookups
        """Positions of messages by their ids, while somebody asks for them."""
        self._timeouts = Deadlines(self._gives_up_at)
        """Queues at which somebody waits."""

    def deadline(self) -> float | None:
        """When the first wait may be over."""
        lookups = self.lookups
        if lookups.unread:
            return self._context.now
        return soonest(lookups.deadline() if lookups.used else None, self._timeouts.soonest)

    def note_last(self, number: int) -> None:
        """Look at a queue again when the wait is over that was begun there last, if one was."""
        queue = self._context.state.queues.get(number)
        if queue is not None and queue.waiters:
            deadline = queue.waiters.last.deadline
            if deadline is not None:
                self._timeouts.note(number, deadline)

    def serve(self, queue: StoredQueue) -> None:
        """Something became available in a queue: let those go on who waited for it."""
        waiting = queue.waiters
        if not queue.index.available_count:
            return
        looked_in, arrived = self._arrived(queue) if waiting.kinds else ([], {})
        for waiter in waiting.that_may_take(arrived):
            if not queue.index.available_count:
                return
            if self._serve_one(waiter):
                waiting.remove(waiter)
        for lookup in looked_in:
            lookup.arrived = set()

    def _arrived(self, queue: StoredQueue) -> tuple[list[Lookup], dict[IdKind, set[int] | None]]:
        """The ids of messages that have come, by their kind, and the lookups that know them.

        A kind is left out while its lookup has more to read than is read at once.
        """
        looked_in: list[Lookup] = []
        arrived: dict[IdKind, set[int] | None] = {}
        for kind in queue.waiters.kinds:
            lookup = self.lookups.by(kind, queue, self._context.now)
            try:
                is_read = lookup.read_on()
            except StorePoisoned:
                raise
            except DrayError as error:
                # No message behind the one that cannot be read is found by its id.
                self._refuse_all(queue, kind, error)
                continue
            if is_read:
                looked_in.append(lookup)
                arrived[kind] = lookup.arrived
            else:
                self.lookups.unread.setdefault(lookup, [])
        return looked_in, arrived

    def _refuse_all(self, queue: StoredQueue, kind: IdKind, error: DrayError) -> None:
        """Tell an error to all that wait at a queue for a message of some id."""
        for waiter in list(queue.waiters):
            if waiter.id is not None and waiter.id[0] is kind:
                queue.waiters.remove(waiter)
                self._context.refuse(waiter.session, waiter.request_id, error)

    def _read_on(self) -> None:
        """Read a queue on in which a message is looked for; then answer those who asked."""
        unread = self.lookups.unread
        lookup = next(iter(unread), None)
        if lookup is None:
            return
        try:
            if not lookup.read_on():
                return
        except StorePoisoned:
            raise
        except DrayError as error:
            for waiter in unread.pop(lookup):
                self._context.refuse(waiter.session, waiter.request_id, error)
            return
        for waiter in unread.pop(lookup):
            self._answer(waiter)
        self.serve(lookup.queue)

    def _answer(self, waiter: Waiter) -> None:
        try:
            self._receives.answer_or_wait(waiter)
        except DrayError as error:
            self._context.refuse(waiter.session, waiter.request_id, error)
        else:
            self.note_last(waiter.head.queue)

    def tick(self) -> None:
        """Tell those whose time is over."""
        self._read_on()
        self.lookups.drop_unused(self._context.now)
        for number in self._timeouts.due(self._context.now):
            self._expire(self._context.state.queues.numbered(number))
            gives_up = self._gives_up_at(number)
            if gives_up is not None:
                self._timeouts.note(number, gives_up)

    def forget(self, session: Session) -> None:
        """A connection has ended: wait for it no longer."""
        for waiters in self.lookups.unread.values():
            waiters[:] = [waiter for waiter in waiters if waiter.session is not session]
        for number in session.waiting_at:
            queue = self._context.state.queues.get(number)
            if queue is not None and queue.waiters:
                for waiter in [each for each in queue.waiters if each.session is session]:
                    queue.waiters.remove(waiter)

    def _expire(self, queue: StoredQueue) -> None:
        for waiter in list(queue.waiters):
            if waiter.deadline is not None and waiter.deadline <= self._context.now:
                queue.waiters.remove(waiter)
                error = nothing_came(queue, waiter.head.timeout)
                self._context.refuse(waiter.session, waiter.request_id, error)

    def _gives_up_at(self, number: int) -> float | None:
        """When the first wait at a queue is over; those that were answered leave nothing behind."""
        queue = self._context.state.queues.get(number)
        waiting = queue.waiters if queue is not None else ()
        return min((each.deadline for each in waiting if each.deadline is not None), default=None)

    def _serve_one(self, waiter: Waiter) -> bool:
        receives, session, request_id = self._receives, waiter.session, waiter.request_id
        head = waiter.head
        try:
            if isinstance(head, Receive):
                return receives.answer_now(session, request_id, head)
            if isinstance(head, ReceiveTransaction):
                return receive_transaction_now(receives.transactions, session, request_id, head)
            return self._large.receive_now(session, request_id, head)
        except DrayError as error:
            self._context.refuse(session, request_id, error)
            return True
