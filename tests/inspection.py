"""A manager from inside, for tests and worlds: the one place that knows where its parts are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dray.manager.change import Compactor
    from dray.manager.disk import RoomLeft
    from dray.manager.dispatch import Subjects
    from dray.manager.facts import Fact
    from dray.manager.incoming.ahead import KeptAhead
    from dray.manager.peers import Links
    from dray.manager.peers.waiting_for_room import WaitingForRoom
    from dray.manager.queue import Lookups
    from dray.manager.relay import Relay
    from dray.manager.requests.waiting import Waiters
    from dray.manager.session import Session
    from dray.manager.state import State
    from dray.manager.state.ledger import Ledger
    from dray.manager.transactions import OpenTransaction
    from dray.manager.transactions.open_transaction import TransactionShares
    from dray.manager.turn import QueueManager
    from dray.manager.untold_ends import UntoldEnds
    from dray.model.places import Places


class Inside:
    """A manager, looked into. Nothing but `record` changes anything."""

    def __init__(self, manager: QueueManager) -> None:
        """Look into `manager`."""
        self._context = manager._context
        self._subjects = manager._subjects
        self.compactor: Compactor = manager._compactor
        self.waiters: Waiters = manager._waiters

    def ahead(self, peer_id: str) -> tuple[int, int]:
        """Bytes and number of the pieces that a peer has sent ahead of commits."""
        return self._subjects.streams.kept_ahead.used_by(peer_id)

    @property
    def kept_ahead(self) -> KeptAhead:
        """Pieces that came ahead of their commits."""
        return self._subjects.streams.kept_ahead

    @property
    def state(self) -> State:
        """What is durable."""
        return self._context.state

    @property
    def ledger(self) -> Ledger:
        """What is used of the quotas."""
        return self._context.state.ledger

    @property
    def now(self) -> float:
        """The time of the last turn."""
        return self._context.now

    @property
    def sessions(self) -> Mapping[int, Session]:
        """Connections that were accepted."""
        return self._subjects.rights.sessions

    @property
    def transactions(self) -> Mapping[int, OpenTransaction]:
        """Those that are open."""
        return self._subjects.transactions.open

    @property
    def shares(self) -> TransactionShares:
        """How many open transactions each caller has."""
        return self._subjects.transactions.shares

    @property
    def room(self) -> RoomLeft:
        """What of the disk may be taken."""
        return self._context.room

    @property
    def waiting_for_room(self) -> WaitingForRoom:
        """Streams that found no room."""
        return self._subjects.sources.waiting_for_room

    @property
    def links(self) -> Links:
        """Connections that this manager makes."""
        return self._subjects.links

    @property
    def lookups(self) -> Lookups:
        """Positions of messages by their ids."""
        return self.waiters.lookups

    @property
    def subjects(self) -> Subjects:
        """The objects that handle requests."""
        return self._subjects

    @property
    def untold_ends(self) -> UntoldEnds:
        """Ends of messages of which their sources are still to be told."""
        return self._context.follow_up.untold_ends

    @property
    def tried(self) -> Places[int]:
        """Outgoing queues that have carried nothing yet."""
        return self._context.follow_up.tried

    @property
    def made(self) -> Places[int]:
        """Queues that callers have made."""
        return self._context.follow_up.made

    @property
    def relay(self) -> Relay:
        """Who has which box."""
        return self._subjects.relay

    @property
    def fact_bytes_max(self) -> int:
        """How many bytes one fact may take."""
        return self._context.room.fact_bytes_max

    def number_of_own_message(self) -> int:
        """Take the number of a message that the queue manager sends itself."""
        return self._context.own_messages.number()

    def record(self, fact: Fact) -> None:
        """Make a fact true that no event brings about in a test."""
        self._context.record(fact)

    def begin_turn(self, now: float) -> None:
        """Let it be another time without an event."""
        self._context.begin_turn(now)


def look_into(manager: QueueManager) -> Inside:
    """See a manager from inside."""
    return Inside(manager)
