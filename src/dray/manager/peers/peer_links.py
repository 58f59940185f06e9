"""The links of a manager: which queues lead to each, who wants it, and when it is dialled.

Nothing here visits every queue: a link knows the queues that lead to its peer and those that have
something to send, and the deadlines of streams stand in a heap.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.manager.context import Context
from dray.manager.events import Dial, Peer
from dray.manager.peers.linking import LinkState, PeerLink
from dray.manager.queue import StoredQueue
from dray.manager.relay import Relay
from dray.manager.state import Deadlines


class PeerLinks:
    """One link for each peer that something leads to."""

    def __init__(self, context: Context, relay: Relay) -> None:
        """Have a link for each queue that leads away and for each peer that must hear of an end."""
        self._context = context
        self._relay = relay
        self._links: dict[Peer, PeerLink] = {}
        self._timers = Deadlines(self._stream_deadline)
        for queue in context.state.queues.outgoing():
            self.note(queue)
        for end in context.state.stream_ends:
            self.to(end.peer)

    def to(self, peer: Peer) -> PeerLink:
        """The link to a peer."""
        link = self._links.get(peer)
        if link is None:
            link = self._links[peer] = PeerLink(peer, self._context.config.reconnect_delay_s)
        return link

    def all(self) -> list[PeerLink]:
        """Every link, those included that a file transfer wants."""
        if self._relay.leading:
            for peer in self._relay.wanted():
                self.to(peer)
        return list(self._links.values())

    def note(self, queue: StoredQueue) -> PeerLink:
        """Note what a queue wants now: a link, and to be looked at again."""
        assert queue.route is not None, "an outgoing queue has a route"
        assert queue.stream is not None, "an outgoing queue has a stream"
        link = self.to(queue.route.peer)
        link.queues.add(queue.number)
        if queue.stream.wants_link:
            link.wanting[queue.number] = None
        else:
            link.wanting.pop(queue.number, None)
        at = queue.stream.deadline()
        if at is not None:
            self._timers.note(queue.number, at)
        return link

    def leading_to(self, link: PeerLink) -> list[StoredQueue]:
        """The queues that lead to a peer, in the order of their numbers."""
        found = []
        for number in sorted(link.queues):
            queue = self._context.state.queues.get(number)
            if queue is None:
                link.queues.discard(number)
            else:
                found.append(queue)
        return found

    def dial(self, link: PeerLink) -> None:
        """Dial a peer, unless that was done or has to wait."""
        if link.may_be_dialled(self._context.now):
            link.state = LinkState.DIALLED
            self._context.effects.append(Dial(link.peer))

    def is_wanted(self, link: PeerLink) -> bool:
        """Whether a peer is to be told something; messages also leave by other routes.

        A queue has something to send there, a file transfer goes there, or a stream has ended.
        """
        state = self._context.state
        if self._relay.wants(link.peer) or state.stream_ends.wants(link.peer):
            return True
        while link.wanting:
            number = next(iter(link.wanting))
            queue = state.queues.get(number)
            if queue is not None and queue.stream is not None and queue.stream.wants_link:
                return True
            del link.wanting[number]
        return False

    def due_streams(self) -> Iterator[StoredQueue]:
        """Outgoing queues whose streams are due to be looked at."""
        return map(self._context.state.queues.numbered, self._timers.due(self._context.now))

    def _stream_deadline(self, number: int) -> float | None:
        queue = self._context.state.queues.get(number)
        return None if queue is None or queue.stream is None else queue.stream.deadline()

    def deadline(self) -> float | None:
        """When the next attempt or resend is due."""
        soonest = self._timers.first() if self._timers.soonest is not None else None
        for link in self.all():
            state = link.state
            if state is LinkState.CONNECTED:
                at = link.welcome_by
            elif state is LinkState.DOWN and self.is_wanted(link):
                at = link.dial_at
            else:
                continue
            soonest = at if soonest is None else min(soonest, at)
        return soonest
