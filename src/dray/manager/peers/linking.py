"""The connection to one peer, or the intention to make one, and what it has been through."""

from __future__ import annotations

import enum
from collections import deque

from dray.delivery.backoff import Backoff
from dray.delivery.keys import ConnectionKey
from dray.delivery.lineage import Past
from dray.manager.context import MICROSECONDS, Context
from dray.manager.events import Peer
from dray.manager.facts import EndForgotten
from dray.manager.notices import NoticeKind
from dray.manager.queue import StoredQueue
from dray.model.limits import END_AGE_S_MAX, LINK_CHANGES_KEPT
from dray.model.names import shown_host
from dray.model.queue import DeliveryInfo, LinkChange


class LinkState(enum.StrEnum):
    """The state of a connection."""

    DOWN = "disconnected"
    DIALLED = "dialling"
    CONNECTED = "connected"
    WELCOMED = "welcomed"


class PeerLink:
    """One peer. Volatile: a start begins anew."""

    def __init__(self, peer: Peer, ceiling_s: float) -> None:
        self.peer = peer
        self.state = LinkState.DOWN
        self.backoff = Backoff(ceiling_s)
        self.jitter = 1.0
        """Drawn by the daemon, for it may draw: so that managers do not all come at once."""
        self.dial_at = 0.0
        self.welcome_by = 0.0
        self.past = Past(())
        """Our incarnations and those that the peer has met, since its last Welcome."""
        self.once = b""
        """The number of the last connection, as our Hello said it."""
        self.answerer = ""
        """The id of the manager that has welcomed us last."""
        self.caller = ""
        """The name in the certificate that the last connection showed; empty without TLS."""
        self.key: ConnectionKey | None = None
        """By which streams are shown to be ours, since the peer's last Welcome."""
        self.told: set[int] = set()
        """Outgoing queues, by number, whose streams know that the link is up."""
        self.queues: set[int] = set()
        """Outgoing queues that lead there."""
        self.wanting: dict[int, None] = {}
        """Outgoing queues that had something to send when the link last looked at them."""
        self.history: deque[LinkChange] = deque(maxlen=LINK_CHANGES_KEPT)

    def changed(self, state: LinkState, reason: str, now: float) -> None:
        """Note a change. The same failure over and over is one, and counted."""
        self.state = state
        last = self.history[-1] if self.history else None
        if last is not None and (last.state, last.reason) == (state, reason):
            self.history[-1] = LinkChange(str(state), reason, last.since, now, last.times + 1)
        else:
            self.history.append(LinkChange(str(state), reason, now, now))

    def may_be_dialled(self, now: float) -> bool:
        """Whether it is down, and the time to try again has come."""
        return self.state is LinkState.DOWN and self.dial_at <= now

    def delivery_of(self, queue: StoredQueue, routed_now: str) -> DeliveryInfo:
        """The state of the delivery of a queue over this link; `routed_now` if it keeps a route."""
        stream, route = queue.stream, queue.route
        assert stream is not None, "an outgoing queue has a stream"
        assert route is not None, "an outgoing queue has a route"
        counters = stream.counters
        messages, byte_count = stream.in_flight
        return DeliveryInfo(
            next_hop=f"{self.peer.host}:{self.peer.port}{' (TLS)' if self.peer.secure else ''}",
            remote_queue=route.remote_queue,
            link=str(self.state),
            routed_now=routed_now,
            next_attempt=self.dial_at if self.state is LinkState.DOWN and self.dial_at else None,
            history=list(self.history),
            sequence_id=stream.sequence_id,
            next_number=stream.next_number,
            unacknowledged=len(queue.index),
            in_flight=messages,
            in_flight_bytes=byte_count,
            last_ack=counters.last_ack,
            last_ack_time=counters.last_ack_time,
            resends=counters.resends,
            next_resend=stream.deadline(),
            silent_since=stream.silent_since,
            refusals=counters.refusals,
            refusal=stream.refusals.current,
            ignored_acks=counters.ignored_acks,
        )


def address_of(peer: Peer) -> str:
    """The address of a peer as people write it."""
    return f"{'drays' if peer.secure else 'dray'}://{shown_host(peer.host)}:{peer.port}"


def diverged(peer: Peer, queue: str) -> str:
    """The notice of a diverged stream, and what to do."""
    return (
        f"the manager at {peer.host}:{peer.port} took messages of this queue from another copy of"
        " this data directory, so its answers cannot be trusted and nothing is delivered; stop the"
        f" other copy, then send what the queue holds with `dray outgoing accept {queue}`, which"
        " may deliver some of it twice, or turn it into dead letters with"
        f" `dray outgoing discard {queue}`"
    )


def refused_for_a_copy(peer: Peer) -> str:
    """The notice of another copy of this store that delivers to a manager, and what to do."""
    return (
        f"the queue manager at {peer.host}:{peer.port} takes messages from another copy of this"
        " data directory, which runs and has called later; nothing is delivered from here: stop"
        " one of them"
    )


def older_copy(peer: Peer, upto: int) -> str:
    """The notice of a store that lost messages which its peer has."""
    return (
        f"the manager at {peer.host}:{peer.port} has message {upto} of this queue, which this data"
        " directory does not have: it is an older copy, or it lost its last commits; no message is"
        " sent twice, and delivery goes on, but check what else this queue manager lost, such as"
        " dead letters of messages that were refused"
    )


def behind(peer: Peer, upto: int) -> str:
    """The notice of a destination that lost messages, and what to do."""
    return (
        f"the manager at {peer.host}:{peer.port} knows this queue only up to message {upto} and"
        " had acknowledged more: its data directory is new or an older copy; later messages are"
        " delivered, so check there whether the earlier ones are missing"
    )


def leads_back(peer: Peer) -> str:
    """Why nothing can be delivered to an address that has become one of this manager's own."""
    return (
        f"{address_of(peer)} has become an address of this queue manager itself (`listen` or"
        " `addresses`), and the messages were sent before; if another queue manager is there,"
        " correct that option, else give them up with `dray queue delete`, which tells their"
        " senders"
    )


def forget_old_ends(context: Context) -> None:
    """Give up on peers that could not be told for too long that a stream has ended."""
    before_us = context.now_us - int(END_AGE_S_MAX * MICROSECONDS)
    while (old := context.state.stream_ends.oldest_before(before_us)) is not None:
        if context.room.has_said_enough:
            return
        sentence = (
            f"this manager could not be told within {END_AGE_S_MAX / 86400:.0f} days that an"
            f" outgoing queue to it (stream {old.stream}) was deleted; it keeps a little memory"
            " for it"
        )
        context.notices.add(NoticeKind.END_UNTOLD, f"{old.host}:{old.port}", sentence)
        context.record(EndForgotten(old.stream))
