"""The actions of an outgoing stream; the table in `outgoing.py` says when.

Two kinds of state, kept strictly apart.

Durable: where the sequence stands and what was acknowledged. It changes only by facts, by the same
code when they are decided and when they are replayed (`durable.py`).

Volatile: the connection and what is in flight on it. All of it may be lost at any time. A new
connection asks the peer for its position (Open), takes the answer as an order ack, and sends again
from the first message that is not acknowledged. A deadline does the same on one connection.
"""

from __future__ import annotations

import enum

from dray.delivery.durable import DurableStream
from dray.delivery.events import (
    Backlog,
    DeliverySettings,
    Diverged,
    Effect,
    Happened,
    Invited,
    LinkReady,
    OlderCopy,
    Open,
    OrderAcked,
    PassOver,
    PeerForgot,
    PeerState,
    Refused,
    Renewed,
    StreamCounters,
    Transmit,
)
from dray.delivery.flight import Flight
from dray.delivery.frame_size import FrameSize
from dray.delivery.judgement import (
    IncarnationMark,
    Judgement,
    KnownPositions,
    PeerPosition,
    Standing,
    judge,
)
from dray.delivery.lineage import Past
from dray.delivery.refusal import RefusalNote
from dray.delivery.sequences import renewed_sequence_id
from dray.machine import Machine, Tick


class ConversationState(enum.Enum):
    """The state of the conversation with the peer on this connection."""

    NO_LINK = enum.auto()
    SILENT = enum.auto()
    """Connected; the peer was not asked."""
    ASKED = enum.auto()
    """The peer was asked for its position and has not answered."""
    REFUSED = enum.auto()
    """The peer refuses; the stream asks again at the deadline."""
    OPEN = enum.auto()
    """Messages may go out."""
    DIVERGED = enum.auto()
    """Nothing goes out until a person decides."""


class Conversation(DurableStream, Machine[ConversationState, Happened, Effect]):
    """The conditions and actions of an outgoing stream, and the state that they share."""

    def __init__(
        self, stream: int, queue: str, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> None:
        """Begin a stream that never carried anything; `stream` is the outgoing queue's number."""
        DurableStream.__init__(self, stream, queue)
        Machine.__init__(self, ConversationState.NO_LINK)
        self.counters = StreamCounters()
        self.refusals = RefusalNote()
        self._backlog = backlog
        self._settings = settings or DeliverySettings()
        self._paused = False
        self._confirmed = self._doubtful = 0
        self._flight = Flight(self._settings)
        self._frame_size = FrameSize(self._settings.frame_bytes_untried, self._settings.frame_bytes)
        self._passed = 0
        self._question = 0
        self._past = Past()
        self._answerer = ""
        self.expects_messages = False
        """Whether a large message is being sent: the stream then opens before its commit."""
        self._probing = False  # Whether one frame at a time is sent, until one is taken whole.
        self._resend_index = 0
        self._resend_at: float | None = None
        self._silent_since: float | None = None

    # ------------------------------------------------------------------------------- conditions

    def has_diverged(self, _event: object, _now: float) -> bool:
        """The peer took messages from a copy of this store, and no person has decided yet."""
        return self.divergence is not None

    @property
    def has_use(self) -> bool:
        """Whether it carried a message at some time, or expects one."""
        return self.last > 0 or self.expects_messages

    def carries_messages(self, _event: object, _now: float) -> bool:
        """The stream carried a message at some time or expects one, and is not paused."""
        return self.has_use and not self._paused

    def has_reason_to_ask(self, _event: object, _now: float) -> bool:
        """The stream has a use; if the peer refused for good, another message waits."""
        return self.has_use and (not self.refusals.in_vain or self._first_waiting() is not None)

    def may_ask(self, event: object, now: float) -> bool:
        """The stream has reason to ask, and is not paused."""
        return not self._paused and self.has_reason_to_ask(event, now)

    def was_refused_for_good(self, _event: object, _now: float) -> bool:
        """The peer refused a stream for good that has a use, and the stream is not paused."""
        return self.has_use and self.refusals.in_vain and not self._paused

    def is_due(self, _event: object, now: float) -> bool:
        """The deadline has come."""
        return self._resend_at is not None and now >= self._resend_at

    def is_news(self, peer: PeerState, _now: float) -> bool:
        """The position is of this sequence, in bounds, and above what the peer acknowledged."""
        return self._confirms(peer)

    def answers_earlier_question(self, peer: PeerState | Refused, _now: float) -> bool:
        """The peer had not heard the last question when it said this."""
        return self.is_stale(peer.question)

    def is_earlier_answer_with_news(self, peer: PeerState | Refused, _now: float) -> bool:
        """An answer to an earlier question acknowledges more."""
        return self.is_stale(peer.question) and self._confirms(peer)

    def is_earlier_answer_that_counts(self, peer: PeerState | Refused, _now: float) -> bool:
        """An answer to an earlier question acknowledges more, and fits this store's past."""
        return (
            self.is_stale(peer.question)
            and not self.anew
            and self._confirms(peer)
            and self._verdict(peer).standing is Standing.FITS
        )

    def begins_anew(self, _event: object, _now: float) -> bool:
        """A person has decided that what is left goes on in a new sequence."""
        return self.anew

    def shows_divergence(self, peer: PeerState, _now: float) -> bool:
        """The position does not fit this store's past."""
        return self._verdict(peer).standing is Standing.DIVERGED

    def shows_older_copy(self, peer: PeerState, _now: float) -> bool:
        """The position shows that this store is an older copy."""
        return self._verdict(peer).standing is Standing.OLDER_COPY

    def shows_lost_messages(self, peer: PeerState | Refused, _now: float) -> bool:
        """The position is below what the same peer acknowledged before."""
        behind = (peer.sequence_id, peer.upto) < self.heard
        return behind and self.heard_by in ("", self._answerer)

    def asks_for_patience(self, event: Refused, _now: float) -> bool:
        """A message waits, and the refusal keeps it for later."""
        return not event.final and next(iter(self._backlog.after(self.floor)), None) is not None

    # ------------------------------------------------------------- the connection, and questions

    def begin_connection(self, event: LinkReady, _now: float) -> list[Effect]:
        """Forget the flight, and what was learned of the earlier connection."""
        self._forget_flight()
        self._past, self._answerer = event.past, event.answerer
        self._resend_index = 0
        self._silent_since = None
        self._probing = self.refusals.in_vain = False
        self._frame_size.begin()
        return []

    def begin_connection_and_ask(self, event: LinkReady, now: float) -> list[Effect]:
        """Begin the connection, then ask the peer for its position: Open."""
        self.begin_connection(event, now)
        return self.ask(event, now)

    def forget_flight(self, _event: object, _now: float) -> list[Effect]:
        """Forget the flight: the next frame begins at the first unacknowledged message."""
        self._forget_flight()
        return []

    def ask(self, _event: object, now: float) -> list[Effect]:
        """Ask the peer for its position: Open."""
        self.refusals.in_vain = False
        self._question += 1
        self._arm(now)
        return [Open(self._question)]

    def ask_again(self, event: Tick, now: float) -> list[Effect]:
        """Ask once more, and wait longer for the answer."""
        self._go_back()
        return self.ask(event, now)

    def ask_invited(self, event: Invited, now: float) -> list[Effect]:
        """Ask at once; the first answer is to show whether the room is enough."""
        self._probe()
        return self.ask(event, now)

    def pause(self, _event: object, _now: float) -> list[Effect]:
        """Send nothing any more; there is no deadline until Unpaused."""
        self._paused = True
        self._resend_at = self._silent_since = None
        return []

    def resume(self, _event: object, _now: float) -> list[Effect]:
        """End the pause."""
        self._paused = False
        return []

    def resume_and_ask(self, event: object, now: float) -> list[Effect]:
        """End the pause and ask: Open."""
        self._paused = False
        return self.ask(event, now)

    def resume_and_wait(self, _event: object, now: float) -> list[Effect]:
        """End the pause and wait for the answer, if there is no deadline."""
        self._paused = False
        if self._resend_at is None:
            self._arm(now)
        return []

    def resume_and_fill_window(self, event: object, now: float) -> list[Effect]:
        """End the pause and fill the window."""
        self._paused = False
        return self.fill_window(event, now)

    # ------------------------------------------------------------------------- the peer's answers

    def ignore(self, _event: object, _now: float) -> list[Effect]:
        """Count the answer and ignore it."""
        self.counters = self.counters._replace(ignored_acks=self.counters.ignored_acks + 1)
        return []

    def take_order_ack(self, peer: PeerState | Refused, now: float) -> list[Effect]:
        """OrderAcked; begin the resend schedule anew, and fill the window."""
        self._confirmed = upto = self.base + peer.upto
        self.refusals.acknowledged()
        self._frame_size.acknowledged(self._leave_flight(upto), now)
        self._resend_index = 0
        self._resend_at = self._silent_since = None
        self._probing = self._probing and bool(self._flight)
        if self._flight or self._passed > upto:
            self._arm(now)
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [OrderAcked(upto, peer.receipt), *self.fill_window(peer, now)]

    def take_earlier_answer(self, peer: PeerState | Refused, now: float) -> list[Effect]:
        """OrderAcked, and nothing else: what was acknowledged once stays acknowledged."""
        self._confirmed = upto = self.base + peer.upto
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [OrderAcked(upto, peer.receipt)]

    def open_and_fill_window(self, peer: PeerState, now: float) -> list[Effect]:
        """Open the stream and fill the window."""
        self._open()
        return self.fill_window(peer, now)

    def open_and_take_order_ack(self, peer: PeerState, now: float) -> list[Effect]:
        """Open the stream and take the answer as an order ack."""
        self._open()
        return self.take_order_ack(peer, now)

    def open_though_peer_forgot(self, peer: PeerState, now: float) -> list[Effect]:
        """PeerForgot; open the stream and fill the window."""
        self._open()
        return [PeerForgot(peer.sequence_id, peer.upto), *self.fill_window(peer, now)]

    def open_older_copy(self, peer: PeerState, now: float) -> list[Effect]:
        """OlderCopy, OrderAcked if the peer has more, Renewed; open the stream."""
        effects = self._older_copy(peer, now)
        self._open()
        return effects

    def open_anew(self, peer: PeerState, now: float) -> list[Effect]:
        """Renewed; open the stream."""
        self._open()
        return [self._renewal(peer, now)]

    def tell_divergence(self, peer: PeerState, _now: float) -> list[Effect]:
        """Diverged: the manager notes it, and that fact is the next event."""
        return [Diverged(peer.sequence_id, peer.upto)]

    def wait_for_room(self, event: Refused, now: float) -> list[Effect]:
        """Note the refusal and judge its position; ask again at the deadline."""
        self._note_refusal(event, now)
        self._arm(now)
        return self._judged_refusal(event, now)

    def wait_for_messages(self, event: Refused, now: float) -> list[Effect]:
        """Note the refusal and judge its position; ask again when there is something to send."""
        self._note_refusal(event, now)
        return self._judged_refusal(event, now)

    # ------------------------------------------------------------------------------- sending

    def go_back(self, event: Tick, now: float) -> list[Effect]:
        """Go back to the first unacknowledged message, and wait longer for the next order ack."""
        self._go_back()
        return self.fill_window(event, now)

    def go_back_invited(self, event: Invited, now: float) -> list[Effect]:
        """Go back at once; one frame goes out first, and shows whether the room is enough."""
        self._probe()
        return self.fill_window(event, now)

    def fill_window(self, _event: object, now: float) -> list[Effect]:
        """Fill the window: send what it has room for, in as few frames as their bounds allow."""
        if self._paused or (self._probing and self._flight):
            return []
        flight = self._flight
        if not flight:
            self._frame_size.sending(now)
        after = flight.last or self._position()
        previous = flight.last - self.base if flight else 0
        frames, more = flight.fill(
            self._backlog, after, self._frame_size.bytes, one_frame=self._probing
        )
        effects: list[Effect] = []
        for frame in frames:
            effects.append(Transmit(self.sequence_id, previous, frame, self.base))
            previous = frame[-1] - self.base
        if flight:
            self._doubtful = max(self._doubtful, flight.last)
            self._past = self._past.sent()
        if not more:
            effects += self._pass_over()
        if (flight or self._passed) and self._resend_at is None:
            self._arm(now)
        return effects

    # ---------------------------------------------------------------------- what they are made of

    def is_stale(self, question: int) -> bool:
        """Whether the peer had not heard the last question when it said something.

        It says nothing then of what was sent since: it may have refused what it takes now.
        """
        return question != self._question

    def _open(self) -> None:
        self._resend_at = self._silent_since = None
        self.refusals.opened()
        # The peer can no longer accept messages of earlier connections.
        self._doubtful = 0

    def _go_back(self) -> None:
        self._resend_index = min(self._resend_index + 1, len(self._settings.resend_schedule_s) - 1)
        self.counters = self.counters._replace(resends=self.counters.resends + 1)
        self._forget_flight()
        self._frame_size.begin()

    def _probe(self) -> None:
        self._forget_flight()
        self._probing = True

    def _note_refusal(self, event: Refused, now: float) -> None:
        self._forget_flight()
        self._silent_since = None
        self._probing = True
        self.refusals.stream_refused(event.code, event.reason, now, final=event.final)
        self.counters = self.counters._replace(refusals=self.counters.refusals + 1)

    def _judged_refusal(self, peer: Refused, now: float) -> list[Effect]:
        effects: list[Effect] = []
        # A refusal that knows no position proves nothing.
        if peer.sequence_id:
            if self.anew:
                return [self._renewal(peer, now)]
            standing = self._verdict(peer).standing
            if standing is Standing.DIVERGED:
                return [Diverged(peer.sequence_id, peer.upto)]
            if standing is Standing.OLDER_COPY:
                return self._older_copy(peer, now)
            if self.shows_lost_messages(peer, now):
                effects = [PeerForgot(peer.sequence_id, peer.upto)]
        return effects + self.take_earlier_answer(peer, now) if self._confirms(peer) else effects

    def _older_copy(self, peer: PeerState | Refused, now: float) -> list[Effect]:
        effects: list[Effect] = [OlderCopy(peer.sequence_id, peer.upto)]
        delivered = self._verdict(peer).delivered
        if delivered > self._position():
            effects.append(OrderAcked(delivered, peer.receipt))
        return [*effects, self._renewal(peer, now)]

    def _verdict(self, peer: PeerState | Refused) -> Judgement:
        present = IncarnationMark(0, self.last, self.sequence_id, self.base)
        past = self._past._replace(met=peer.met)
        position = PeerPosition(peer.sequence_id, peer.upto, peer.incarnation)
        known = KnownPositions(self.heard, self.judged, self.floor)
        return judge(position, past, self.marks, present, known=known)

    def _renewal(self, peer: PeerState | Refused, now: float) -> Renewed:
        sequence_id = renewed_sequence_id(self.sequence_id, peer.sequence_id, int(now))
        return Renewed(sequence_id, PeerPosition(peer.sequence_id, peer.upto, peer.incarnation))

    def _confirms(self, peer: PeerState | Refused) -> bool:
        """Whether a StreamState is of this sequence, in bounds and new (R36, KB 830639)."""
        upto = self.base + peer.upto
        return peer.sequence_id == self.sequence_id and self._position() < upto <= self.last

    def _position(self) -> int:
        """Lookup id up to which the peer is known to have everything."""
        return max(self.floor, self._confirmed)

    def _first_waiting(self) -> tuple[int, int] | None:
        return next(iter(self._backlog.after(self._position())), None)

    def _pass_over(self) -> list[Effect]:
        """Let the peer know that what was admitted behind all that was sent has gone."""
        sent = self._flight.last or self._position()
        last = self.last - self.untaken
        if last <= max(sent, self._passed):
            return []
        self._passed = last
        previous = sent - self.base if self._flight else 0
        return [PassOver(self.sequence_id, previous, last - self.base)]

    def _leave_flight(self, upto: int) -> int:
        """Take out what the peer has; gives how many bytes that were."""
        if self._passed <= upto:
            self._passed = 0
        return self._flight.acknowledged(upto)

    def _forget_flight(self) -> None:
        self._flight.forget()
        # The owner may not have noted all of it yet, so it is told anew.
        self._confirmed = self.floor
        self._passed = 0
        self._resend_at = None

    def _arm(self, now: float) -> None:
        if not self._paused:
            self._resend_at = now + self._settings.resend_schedule_s[self._resend_index]
            if self._silent_since is None:
                self._silent_since = now
