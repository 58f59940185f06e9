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

import enum
from collections import deque
from typing import assert_never

from dray.delivery.durable import DurableStream
from dray.delivery.events import (
    Backlog,
    Confirmed,
    DeliverySettings,
    Diverged,
    Effect,
    Event,
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    OlderCopy,
    Open,
    PassOver,
    Paused,
    PeerForgot,
    PeerState,
    Refused,
    Renewed,
    Resumed,
    StreamCondition,
    StreamCounters,
    StreamSnapshot,
    Tick,
    Transmit,
)
from dray.delivery.frame_size import FrameSize
from dray.delivery.judgement import Judgement, LifeMark, PeerPosition, Standing, judge
from dray.delivery.lineage import Past
from dray.delivery.refusal import RefusalNote
from dray.delivery.sequences import renewed_sequence_id
from dray.model.limits import WINDOW_FRAMES_MIN


class _Talk(enum.Enum):
    """How far the conversation with the peer has come on this connection."""

    NO_LINK = enum.auto()
    SILENT = enum.auto()
    ASKED = enum.auto()
    REFUSED = enum.auto()
    OPEN = enum.auto()
    DIVERGED = enum.auto()


class OutgoingStream(DurableStream):
    """Delivers one outgoing queue to one queue of a peer."""

    def __init__(
        self, stream: int, queue: str, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> None:
        """Begin a stream that never carried anything; `stream` is the outgoing queue's number."""
        super().__init__(stream, queue)
        self.counters = StreamCounters()
        self.held = False
        """Whether another manager than the known one answers at the peer's address."""
        self._backlog = backlog
        self._settings = settings or DeliverySettings()
        self._talk = _Talk.NO_LINK
        self._paused = False
        self._confirmed = self._doubtful = 0
        self._flight: deque[tuple[int, int]] = deque()
        self._flight_bytes = 0
        self._frame_size = FrameSize(self._settings.frame_bytes_untried, self._settings.frame_bytes)
        self._passed = 0
        self._question = 0
        self._past = Past()
        self._probing = False  # Whether one frame at a time is sent, until one is taken whole.
        self._resend_index = 0
        self._resend_at: float | None = None
        self.refusals = RefusalNote()

    @classmethod
    def from_state(
        cls, state: StreamSnapshot, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> OutgoingStream:
        """Go on from a checkpoint."""
        self = cls(state.stream, state.queue, backlog, settings)
        self.restore(state)
        return self

    def acknowledged(self, upto: int) -> None:
        """Apply the fact that all messages up to a lookup id are delivered and gone."""
        super().acknowledged(upto)
        self._leave_flight(upto)

    def diverge(self, sequence_id: int, upto: int) -> None:
        """Apply the fact that the peer took messages from a copy of this store."""
        super().diverge(sequence_id, upto)
        self._talk = _Talk.NO_LINK if self._talk is _Talk.NO_LINK else _Talk.DIVERGED
        self._forget_flight()

    def resolved(self) -> None:
        """Apply the fact that a person has decided: what is left goes in a new sequence."""
        super().resolved()
        if self._talk is _Talk.DIVERGED:
            self._talk = _Talk.SILENT

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; say what is to be done."""
        match event:
            case PeerState(question=asked) | Refused(question=asked) if self.is_stale(asked):
                position = event.sequence_id, event.upto
                return self._overtaken(PeerState(*position, 0, event.life, event.met), now)
            case PeerState():
                return self._peer_state(event, now)
            case LinkReady(past):
                self._forget_flight()
                self._talk = _Talk.SILENT if self.divergence is None else _Talk.DIVERGED
                self._past = past
                self._resend_index = 0
                self._probing = self.refusals.in_vain = False
                self._frame_size.begin()
                return self._advance(now)
            case LinkLost():
                self._forget_flight()
                self._talk = _Talk.NO_LINK
            case Refused():
                return self._refused(event, now)
            case Invited():
                return self._invited(now)
            case Grown():
                return self._advance(now)
            case Paused():
                self._paused = True
                self._resend_at = None
            case Resumed():
                self._paused = False
                if self._talk is _Talk.REFUSED:
                    self._talk = _Talk.SILENT
                return self._advance(now)
            case Tick():
                return self._tick(now)
            case _:
                assert_never(event)
        return []

    def deadline(self) -> float | None:
        """When to send Tick if nothing happens before."""
        return self._resend_at

    @property
    def condition(self) -> StreamCondition:
        """How the stream stands, for QueueInfo."""
        if self._paused:
            return StreamCondition.ON_HOLD
        if self.divergence is not None:
            return StreamCondition.DIVERGED
        if self.held:
            return StreamCondition.NEED_VALIDATION
        if self.refusals.current is not None:
            return StreamCondition.REFUSED
        if self._talk is _Talk.OPEN:
            return StreamCondition.CONNECTED
        return StreamCondition.WAITING if self._first_waiting() else StreamCondition.INACTIVE

    @property
    def wants_link(self) -> bool:
        """Whether there is a reason to be connected: something to deliver, or news of what was.

        Confirmations come at any time, over connections made from here.
        """
        return not self._paused and self.last > 0 and self.divergence is None

    @property
    def hears(self) -> bool:
        """Whether a connection stands over which the peer can say what became of messages."""
        return self._talk is not _Talk.NO_LINK

    @property
    def next_number(self) -> int:
        """What the next message of this sequence will be numbered, if it does not begin another."""
        return self.last - self.untaken - self.base + 1

    @property
    def in_flight(self) -> tuple[int, int]:
        """Messages and bytes sent and not yet acknowledged on this connection."""
        return len(self._flight), self._flight_bytes

    @property
    def sent_upto(self) -> int:
        """Lookup id up to which messages may have been sent and are not acknowledged."""
        return self._flight[-1][0] if self._flight else max(self._doubtful, self.floor)

    def is_stale(self, question: int) -> bool:
        """Whether the peer had not heard the last question when it said something.

        It says nothing then of what was sent since: it may have refused what it takes now.
        """
        return question != self._question

    def is_in_flight(self, lookup_id: int) -> bool:
        """Whether a message was sent on this connection and its order ack has not come."""
        return bool(self._flight) and self._flight[0][0] <= lookup_id <= self._flight[-1][0]

    def may_be_delivered(self, lookup_id: int) -> bool:
        """Whether the peer may have accepted a message that it has not acknowledged."""
        return lookup_id <= self._doubtful

    def began_anew(self) -> None:
        """The process has started: what was sent before, and perhaps accepted, is not known."""
        self._doubtful = self.last

    def _position(self) -> int:
        """Lookup id up to which the peer is known to have everything."""
        return max(self.floor, self._confirmed)

    def _first_waiting(self) -> tuple[int, int] | None:
        return next(iter(self._backlog.after(self._position())), None)

    def _advance(self, now: float) -> list[Effect]:
        """Do what the conversation allows next: ask the peer, or fill the window."""
        if self._paused or self._talk in (_Talk.NO_LINK, _Talk.REFUSED, _Talk.DIVERGED):
            return []
        if self._talk is _Talk.OPEN:
            return self._fill_window(now)
        in_vain = self.refusals.in_vain and self._first_waiting() is None
        if self._talk is _Talk.SILENT and self.last > 0 and not in_vain:
            self._talk, self.refusals.in_vain = _Talk.ASKED, False
            self._question += 1
            self._arm(now)
            return [Open(self._question)]
        if self._talk is _Talk.ASKED and self._resend_at is None:
            self._arm(now)
        return []

    def _peer_state(self, peer: PeerState, now: float) -> list[Effect]:
        """Take the answer to Open, or an order ack."""
        if self._talk is _Talk.OPEN:
            return self._order_ack(peer, now)
        if self._talk is not _Talk.ASKED:
            self.counters = self.counters._replace(ignored_acks=self.counters.ignored_acks + 1)
            return []
        effects = self._judge(peer, now)
        if effects and isinstance(effects[-1], Diverged):
            return effects
        self._talk = _Talk.OPEN
        self._resend_at = None
        self.refusals.opened()
        # What was sent on earlier connections can no longer be accepted.
        self._doubtful = 0
        if effects and isinstance(effects[-1], Renewed):
            return effects
        if not self._confirms(peer):
            return effects + self._fill_window(now)
        return effects + self._order_ack(peer, now)

    def _overtaken(self, peer: PeerState, now: float) -> list[Effect]:
        """Take of what was said before the last question what stays true: the order ack.

        What the peer tells behind it of its messages leans on that.
        """
        if self._talk is _Talk.OPEN:
            return self._order_ack(peer, now)
        unfit = self._verdict(peer).standing is not Standing.FITS
        if self._talk is _Talk.NO_LINK or self.anew or unfit or not self._confirms(peer):
            self.counters = self.counters._replace(ignored_acks=self.counters.ignored_acks + 1)
            return []
        self._confirmed = upto = self.base + peer.upto
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [Confirmed(upto)]

    def _judge(self, peer: PeerState, now: float) -> list[Effect]:
        """Compare the peer's position with this store's past.

        Ends with `Diverged` or `Renewed` if the position does not count as an order ack.
        """
        if self.anew:
            return [self._renewal(peer, now)]
        standing, delivered = self._verdict(peer)
        if standing is Standing.DIVERGED:
            return [Diverged(peer.sequence_id, peer.upto)]
        if standing is Standing.OLDER_COPY:
            effects: list[Effect] = [OlderCopy(peer.sequence_id, peer.upto)]
            if delivered > self._position():
                self._confirmed = delivered
                effects.append(Confirmed(delivered))
            return [*effects, self._renewal(peer, now)]
        if (peer.sequence_id, peer.upto) < self.heard:
            return [PeerForgot(peer.sequence_id, peer.upto)]
        return []

    def _verdict(self, peer: PeerState) -> Judgement:
        present = LifeMark(0, self.last, self.sequence_id, self.base)
        past = self._past._replace(met=peer.met)
        position = PeerPosition(peer.sequence_id, peer.upto, peer.life)
        known = max(self.heard, self.judged[:2])
        return judge(position, past, self.marks, present, known=known)

    def _renewal(self, peer: PeerState, now: float) -> Renewed:
        sequence_id = renewed_sequence_id(self.sequence_id, peer.sequence_id, int(now))
        return Renewed(sequence_id, PeerPosition(peer.sequence_id, peer.upto, peer.life))

    def _confirms(self, peer: PeerState) -> bool:
        """Whether a StreamState is of this sequence, in bounds and new (R36, KB 830639)."""
        upto = self.base + peer.upto
        return peer.sequence_id == self.sequence_id and self._position() < upto <= self.last

    def _order_ack(self, peer: PeerState, now: float) -> list[Effect]:
        if not self._confirms(peer):
            self.counters = self.counters._replace(ignored_acks=self.counters.ignored_acks + 1)
            return []
        self._confirmed = upto = self.base + peer.upto
        in_flight = self._flight_bytes
        self.refusals.acknowledged()
        self._leave_flight(upto)
        self._frame_size.acknowledged(in_flight - self._flight_bytes, now)
        self._resend_index = 0
        self._resend_at = None
        self._probing = self._probing and bool(self._flight)
        if self._flight or self._passed > upto:
            self._arm(now)
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [Confirmed(upto), *self._fill_window(now)]

    def _refused(self, event: Refused, now: float) -> list[Effect]:
        if self._talk in (_Talk.NO_LINK, _Talk.DIVERGED):
            return []
        self._forget_flight()
        self._probing = True
        # With nothing to deliver it is not asked again before there is.
        waits = self._first_waiting() is not None and not event.final
        self.refusals.stream_refused(event.code, event.reason, now, final=event.final)
        self._talk = _Talk.REFUSED if waits else _Talk.SILENT
        if waits:
            self._arm(now)
        self.counters = self.counters._replace(refusals=self.counters.refusals + 1)
        peer = PeerState(event.sequence_id, event.upto, life=event.life, met=event.met)
        # A refusal that knows no position proves nothing.
        effects = self._judge(peer, now) if event.sequence_id else []
        if effects and isinstance(effects[-1], (Diverged, Renewed)):
            return effects
        if self._confirms(peer):
            self._confirmed = upto = self.base + peer.upto
            self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
            effects.append(Confirmed(upto))
        return effects

    def _invited(self, now: float) -> list[Effect]:
        """Go back, or ask again, without waiting for the schedule; see whether it is enough."""
        in_vain = self.refusals.in_vain and self._talk is _Talk.SILENT
        if self._paused or not (in_vain or self._talk in (_Talk.REFUSED, _Talk.OPEN)):
            return []
        self.refusals.in_vain = False
        self._forget_flight()
        self._probing = True
        if self._talk is _Talk.REFUSED:
            self._talk = _Talk.SILENT
        return self._advance(now)

    def _tick(self, now: float) -> list[Effect]:
        """Go back to the first unacknowledged, or ask again, if the wait is over."""
        if self._resend_at is None or now < self._resend_at:
            return []
        self._resend_index = min(self._resend_index + 1, len(self._settings.resend_schedule_s) - 1)
        self.counters = self.counters._replace(resends=self.counters.resends + 1)
        self._forget_flight()
        self._frame_size.begin()
        if self._talk is not _Talk.OPEN:
            self._talk = _Talk.SILENT
        return self._advance(now)

    def _fill_window(self, now: float) -> list[Effect]:
        """Send what the window has room for, packed into as few frames as their bounds allow."""
        if self._paused or (self._probing and self._flight):
            return []
        settings, flight = self._settings, self._flight
        messages_left = settings.window_messages - len(flight)
        bytes_left = settings.window_bytes - self._flight_bytes
        previous = flight[-1][0] - self.base if flight else 0
        if not flight:
            self._frame_size.sending(now)
        effects: list[Effect] = []
        frame: list[int] = []
        frame_left = self._frame_size.bytes
        # Each frame has an ack of its own: a window that is full would for ever refill by as little
        # as the shortest frame of its beginning.
        worth_a_frame = min(frame_left, settings.window_bytes // WINDOW_FRAMES_MIN)
        more = False
        for each in self._backlog.after(flight[-1][0] if flight else self._position()):
            lookup_id, length = each
            # A message larger than the window travels alone.
            if flight and (messages_left <= 0 or length > bytes_left):
                more = True
                break
            if frame and (length > frame_left or len(frame) >= settings.frame_messages):
                if self._probing:
                    more = True
                    break
                effects.append(Transmit(self.sequence_id, previous, frame, self.base))
                previous, frame, frame_left = frame[-1] - self.base, [], self._frame_size.bytes
            if flight and not frame and bytes_left < worth_a_frame:
                more = True
                break
            frame.append(lookup_id)
            frame_left -= length
            flight.append(each)
            messages_left -= 1
            bytes_left -= length
        if frame:
            effects.append(Transmit(self.sequence_id, previous, frame, self.base))
        if flight:
            self._doubtful = max(self._doubtful, flight[-1][0])
            self._past = self._past.sent()
        self._flight_bytes = settings.window_bytes - bytes_left
        if not more:
            effects += self._pass_over()
        if (flight or self._passed) and self._resend_at is None:
            self._arm(now)
        return effects

    def _pass_over(self) -> list[Effect]:
        """Let the peer know that what was admitted behind all that was sent has gone."""
        sent = self._flight[-1][0] if self._flight else self._position()
        last = self.last - self.untaken
        if last <= max(sent, self._passed):
            return []
        self._passed = last
        previous = max(0, sent - self.base) if self._flight else 0
        return [PassOver(self.sequence_id, previous, last - self.base)]

    def _leave_flight(self, upto: int) -> None:
        if self._passed <= upto:
            self._passed = 0
        while self._flight and self._flight[0][0] <= upto:
            self._flight_bytes -= self._flight.popleft()[1]

    def _forget_flight(self) -> None:
        self._flight.clear()
        # What the owner could not note at once is told anew.
        self._confirmed = self.floor
        self._flight_bytes = self._passed = 0
        self._resend_at = None

    def _arm(self, now: float) -> None:
        if not self._paused:
            self._resend_at = now + self._settings.resend_schedule_s[self._resend_index]
