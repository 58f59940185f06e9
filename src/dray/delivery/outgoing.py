"""One outgoing queue's half of exactly-once delivery (semantics 2.1, 2.2, 2.4, 2.5).

Two kinds of state, kept strictly apart.

Durable: where the sequence stands and what was acknowledged. It changes only by facts, by the same
code when they are decided and when they are replayed (`durable.py`).

Volatile: the connection and what is in flight on it. All of it may be lost at any time: a new
connection asks the peer what it has (Open), takes the answer as an order ack, and goes back to the
first message that is not acknowledged. When no order ack moves the stream before the resend
schedule runs out, it goes back likewise on the same connection; if the peer never answered, or
refused, it asks again. Questions are numbered and answers say to which: an answer to an earlier one
neither opens the stream nor refuses it, but counts as an order ack, which stays true.

A message's previous number is that of the message before it still in this outgoing queue, or 0. So
an expired or purged message is bridged, and an acknowledged one is not referred to. Where nothing
follows that could bridge it, the peer is told (PassOver), and acknowledges that like a message: it
has to know when a transaction ends short of its last message. A peer that forgot what it had
acknowledged (`PeerForgot`: its disk was lost or is an old copy) can go on, for 0 is acceptable to
whatever it remembers.

This store may be an old copy as well: put back, restored, cloned, or without its last commit. So
each answer to Open is *judged* before it counts (`judgement.py`), also on the same connection: a
copy of this store may have delivered on another one meanwhile.
`OlderCopy`: all that the peer has of this store counts as delivered, and the rest goes on in a new
sequence (`Renewed`, see `sequences.py`). `Diverged`, which is durable: nothing is sent and nothing
counts as delivered until a person decides (`resolved`); then all that is left is renewed.
"""

from __future__ import annotations

from typing import Final

from dray.delivery.conversation import Conversation, ConversationState
from dray.delivery.events import (
    Backlog,
    DeliverySettings,
    Diverged,
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    Paused,
    PeerState,
    Refused,
    Resolved,
    StreamCondition,
    StreamSnapshot,
    Unpaused,
)
from dray.machine import Tick, Transition, always, nothing, on

_S = ConversationState
_NO_LINK, _SILENT, _ASKED = _S.NO_LINK, _S.SILENT, _S.ASKED
_REFUSED, _OPEN, _DIVERGED = _S.REFUSED, _S.OPEN, _S.DIVERGED
_EVERY = tuple(_S)
_LINKED = (_SILENT, _ASKED, _REFUSED, _OPEN, _DIVERGED)
_UNDIVERGED = (_NO_LINK, _SILENT, _ASKED, _REFUSED, _OPEN)
_ACTIVE = (_SILENT, _ASKED, _REFUSED, _OPEN)
_NOT_OPEN = (_SILENT, _ASKED, _REFUSED, _DIVERGED)
_C = Conversation

OUTGOING: Final[tuple[Transition, ...]] = (
    on(_NO_LINK, LinkReady, _C.has_diverged, _C.begin_connection, _DIVERGED),
    on(_UNDIVERGED, LinkReady, _C.carries_messages, _C.begin_connection_and_ask, _ASKED),
    on(_UNDIVERGED, LinkReady, always, _C.begin_connection, _SILENT),
    on(_DIVERGED, LinkReady, always, _C.begin_connection),
    on(_EVERY, LinkLost, always, _C.forget_flight, _NO_LINK),
    # Something was admitted.
    on(_OPEN, Grown, always, _C.fill_window),
    on(_SILENT, Grown, _C.may_ask, _C.ask, _ASKED),
    on((_NO_LINK, _SILENT, _ASKED, _REFUSED, _DIVERGED), Grown, always, nothing),
    # An order ack, or the answer to Open.
    on(_OPEN, PeerState, _C.is_news, _C.take_order_ack),
    on(_NOT_OPEN, PeerState, _C.is_earlier_answer_that_counts, _C.take_earlier_answer),
    on(_ASKED, PeerState, _C.answers_earlier_question, _C.ignore),
    on(_ASKED, PeerState, _C.begins_anew, _C.open_anew, _OPEN),
    on(_ASKED, PeerState, _C.shows_divergence, _C.tell_divergence),
    on(_ASKED, PeerState, _C.shows_older_copy, _C.open_older_copy, _OPEN),
    on(_ASKED, PeerState, _C.shows_lost_messages, _C.open_though_peer_forgot, _OPEN),
    on(_ASKED, PeerState, _C.is_news, _C.open_and_take_order_ack, _OPEN),
    on(_ASKED, PeerState, always, _C.open_and_fill_window, _OPEN),
    on((_NO_LINK, _SILENT, _REFUSED, _OPEN, _DIVERGED), PeerState, always, _C.ignore),
    # A refusal.
    on(_OPEN, Refused, _C.is_earlier_answer_with_news, _C.take_order_ack),
    on(_NOT_OPEN, Refused, _C.is_earlier_answer_that_counts, _C.take_earlier_answer),
    on(_EVERY, Refused, _C.answers_earlier_question, _C.ignore),
    on(_ACTIVE, Refused, _C.asks_for_patience, _C.wait_for_room, _REFUSED),
    on(_ACTIVE, Refused, always, _C.wait_for_messages, _SILENT),
    on((_NO_LINK, _DIVERGED), Refused, always, nothing),
    # The peer has room again.
    on(_SILENT, Invited, _C.was_refused_for_good, _C.ask_invited, _ASKED),
    on(_REFUSED, Invited, _C.carries_messages, _C.ask_invited, _ASKED),
    on(_OPEN, Invited, _C.carries_messages, _C.go_back_invited),
    on(_EVERY, Invited, always, nothing),
    # A person holds the stream, and lets it go on.
    on(_EVERY, Paused, always, _C.pause),
    on(_SILENT, Unpaused, _C.has_reason_to_ask, _C.resume_and_ask, _ASKED),
    on(_REFUSED, Unpaused, always, _C.resume_and_ask, _ASKED),
    on(_ASKED, Unpaused, always, _C.resume_and_wait),
    on(_OPEN, Unpaused, always, _C.resume_and_fill_window),
    on((_NO_LINK, _SILENT, _DIVERGED), Unpaused, always, _C.resume),
    # The deadline.
    on((_ASKED, _REFUSED), Tick, _C.is_due, _C.ask_again, _ASKED),
    on(_OPEN, Tick, _C.is_due, _C.go_back),
    on(_EVERY, Tick, always, nothing),
    # Facts.
    on(_NO_LINK, Diverged, always, _C.forget_flight),
    on(_LINKED, Diverged, always, _C.forget_flight, _DIVERGED),
    on(_DIVERGED, Resolved, always, nothing, _SILENT),
    on(_UNDIVERGED, Resolved, always, nothing),
)
"""One outgoing stream on one connection: `handle` takes every decision from here."""


class OutgoingStream(Conversation):
    """Delivers one outgoing queue to one queue of a peer."""

    table = OUTGOING

    def __init__(
        self, stream: int, queue: str, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> None:
        """Begin a stream that never carried anything; `stream` is the outgoing queue's number."""
        super().__init__(stream, queue, backlog, settings)
        self.held = False
        """Whether another manager than the known one answers at the peer's address."""

    @classmethod
    def from_state(
        cls, state: StreamSnapshot, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> OutgoingStream:
        """Go on from a checkpoint."""
        self = cls(state.stream, state.queue, backlog, settings)
        self.restore(state)
        return self

    def diverge(self, sequence_id: int, upto: int) -> None:
        """Apply the fact that the peer took messages from a copy of this store."""
        super().diverge(sequence_id, upto)
        self.handle(Diverged(sequence_id, upto), 0.0)

    def resolved(self) -> None:
        """Apply the fact that a person has decided: what is left goes in a new sequence."""
        super().resolved()
        self.handle(Resolved(), 0.0)

    def deadline(self) -> float | None:
        """When to send Tick if nothing happens before."""
        return self._resend_at

    @property
    def condition(self) -> StreamCondition:
        """The state of the stream, for QueueInfo."""
        if self._paused:
            return StreamCondition.ON_HOLD
        if self.divergence is not None:
            return StreamCondition.DIVERGED
        refused = self.refusals.current
        if self.held or (refused and refused.code == StreamCondition.NEED_VALIDATION):
            return StreamCondition.NEED_VALIDATION
        if refused is not None:
            return StreamCondition.REFUSED
        if self.stage is _OPEN:
            return StreamCondition.CONNECTED
        return StreamCondition.WAITING if self._first_waiting() else StreamCondition.INACTIVE

    @property
    def wants_link(self) -> bool:
        """Whether there is a reason to be connected: something to deliver, or news of what was.

        Confirmations come at any time, over connections made from here.
        """
        return not self._paused and self.has_use and self.divergence is None

    @property
    def hears(self) -> bool:
        """Whether a connection stands over which the peer can say what became of messages."""
        return self.stage is not _NO_LINK

    @property
    def silent_since(self) -> float | None:
        """Since when the peer owes an answer on this connection that lets the stream go on."""
        return None if self._resend_at is None else self._silent_since

    @property
    def next_number(self) -> int:
        """The next number of this sequence, if no other sequence begins."""
        return self.last - self.untaken - self.base + 1

    @property
    def in_flight(self) -> tuple[int, int]:
        """Messages and bytes sent and not yet acknowledged on this connection."""
        return len(self._flight), self._flight.bytes

    @property
    def sent_upto(self) -> int:
        """Lookup id up to which messages may have been sent and are not acknowledged."""
        return self._flight.last or max(self._doubtful, self.floor)

    def is_in_flight(self, lookup_id: int) -> bool:
        """Whether a message was sent on this connection and its order ack has not come."""
        return bool(self._flight) and self._flight.first <= lookup_id <= self._flight.last

    def may_be_delivered(self, lookup_id: int) -> bool:
        """Whether the peer may have accepted a message that it has not acknowledged."""
        return lookup_id <= self._doubtful

    def began_anew(self) -> None:
        """The process has started: what was sent before, and perhaps accepted, is not known."""
        self._doubtful = self.last
