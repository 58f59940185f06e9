"""One outgoing queue's half of exactly-once delivery (semantics 2.1, 2.2, 2.4, 2.5).

Two kinds of state, kept strictly apart.

Durable: sequence id, base, the last admitted and the last acknowledged lookup id. It changes only
by facts (`admitted`, `acknowledged`), by the same code when they are decided and when they are
replayed. A message's number is its lookup id less the base, so numbering costs nothing to store and
cannot differ after a restart. A sequence begins when a message is admitted while none is
unacknowledged; its id is above every earlier one and at least the time of day, so that even a
manager restored from a backup gets a new one.

Volatile: the connection and what is in flight on it. All of it may be lost at any time: a new
connection asks the peer what it has (Open), takes the answer as an order ack, and goes back to the
first message that is not acknowledged. When no order ack moves the stream before the resend
schedule runs out, it goes back likewise on the same connection; if the peer never answered, or
refused, it asks again. Questions are numbered and answers say to which: what was said before the
last one neither opens the stream nor refuses it, for a peer that has refused it may take it now,
and all that is sent since; it counts as an order ack, which stays true.

A message's previous number is that of the message before it still in this outgoing queue, or 0. So
what expired or was purged is bridged, and what was acknowledged is not referred to. Where nothing
follows that could bridge it, the peer is told (PassOver), and acknowledges that like a message: it
has to know when a transaction ends short of its last message. Therefore a
peer that forgot what it had acknowledged (its disk was lost or is an old copy) can go on: that is
reported as `PeerForgot`, and 0 is acceptable to whatever it remembers. The reverse must not go on:
a peer that has seen *more* than this manager ever admitted. Then this manager is the old copy, or
there are two of it, and any number it used could be taken for a duplicate, dropped, and acked. The
stream stops, keeps everything and says so (`Diverged`).

A stream restored from a backup is an old copy on purpose, and knows it. What its peer has seen
beyond the backup is no surprise: of what the backup held, everything that the peer has accepted
counts as delivered, and the rest goes on in a new sequence (`Renewed`), whose id is above all that
either side has used and whose numbers are lookup ids (`sequences.py`). Until the peer has answered
nothing is sent and no other sequence begins.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import assert_never

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
    Open,
    PassOver,
    Paused,
    PeerForgot,
    PeerState,
    Refused,
    Renewed,
    RestoreMark,
    Resumed,
    StreamCondition,
    StreamCounters,
    StreamSnapshot,
    Tick,
    Transmit,
)
from dray.delivery.frame_size import FrameSize
from dray.delivery.refusal import RefusalNote
from dray.delivery.sequences import (
    began_after,
    began_by_restore,
    next_sequence_id,
    restored_sequence_id,
)
from dray.model.limits import WINDOW_FRAMES_MIN


class _Talk(enum.Enum):
    """How far the conversation with the peer has come on this connection."""

    NO_LINK = enum.auto()
    SILENT = enum.auto()
    ASKED = enum.auto()
    REFUSED = enum.auto()
    OPEN = enum.auto()
    DIVERGED = enum.auto()


class OutgoingStream:
    """Delivers one outgoing queue to one queue of a peer."""

    def __init__(
        self, stream: int, queue: str, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> None:
        """Begin a stream that never carried anything; `stream` is the outgoing queue's number."""
        self.stream = stream
        self.queue = queue
        self.sequence_id = self.base = self.last = self.floor = 0
        self.restored: list[RestoreMark] = []
        self.untaken = 0
        """How many of the last that were admitted are still to come: positions reserved in this
        life. What they are taken for is in no fact; all that comes by one is admitted behind."""
        self.counters = StreamCounters()
        self.doubted = False
        """Whether the peer says that this manager is one of two with the same id."""
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
        self._probing = False
        """Whether one frame at a time is sent, until one is taken whole."""
        self._resend_index = 0
        self._resend_at: float | None = None
        self.refusals = RefusalNote()

    @classmethod
    def from_state(
        cls, state: StreamSnapshot, backlog: Backlog, settings: DeliverySettings | None = None
    ) -> OutgoingStream:
        """Go on from a checkpoint."""
        self = cls(state.stream, state.queue, backlog, settings)
        self.sequence_id, self.base = state.sequence_id, state.base
        self.last, self.floor = state.last, state.acknowledged
        self.restored = list(state.restored)
        return self

    def state(self) -> StreamSnapshot:
        """The durable part, for a checkpoint."""
        return StreamSnapshot(
            self.stream,
            self.queue,
            self.sequence_id,
            self.base,
            self.last,
            self.floor,
            list(self.restored),
        )

    def admitted(self, first: int, last: int, when_us: int) -> None:
        """Apply the fact that messages `first` to `last` joined the queue, at a time of day."""
        assert self.last < first <= last, f"{first}..{last} joined after {self.last}"
        if self.floor >= self.last and not self.restored:
            self.sequence_id = next_sequence_id(self.sequence_id, when_us // 1_000_000)
            self.base = self.floor = first - 1
        self.last, self.untaken = last, 0

    def acknowledged(self, upto: int) -> None:
        """Apply the fact that all messages up to a lookup id are delivered and gone."""
        assert upto <= self.last, f"{upto} acknowledged, only {self.last} ever admitted"
        self.floor = max(self.floor, upto)
        self._leave_flight(upto)

    def came_from_backup(self, second: int) -> None:
        """Apply the fact that all of this is an old copy: the peer may have seen more."""
        self.restored.append(RestoreMark(self.last, second))

    def renewed(self, sequence_id: int) -> None:
        """Apply the fact that what is left of a restored stream goes on in a new sequence."""
        self.sequence_id, self.base, self.restored = sequence_id, 0, []

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; say what is to be done."""
        match event:
            case PeerState(question=asked) | Refused(question=asked) if self.is_stale(asked):
                return self._overtaken(PeerState(event.sequence_id, event.upto), now)
            case PeerState():
                return self._peer_state(event, now)
            case LinkReady():
                self._forget_flight()
                self._talk = _Talk.SILENT
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
                if self._talk in (_Talk.REFUSED, _Talk.DIVERGED):
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
        if self._talk is _Talk.DIVERGED or self.doubted:
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
        return not self._paused and self.last > 0

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
        return question not in (0, self._question)

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
        beyond = (peer.sequence_id, peer.upto) > (self.sequence_id, self.last - self.base)
        if beyond and not self.restored:
            self._talk = _Talk.DIVERGED
            self._arm(now)
            return [Diverged(peer.sequence_id, peer.upto)]
        self._talk = _Talk.OPEN
        self._resend_at = None
        self.refusals.opened()
        # What was sent on earlier connections can no longer be accepted.
        self._doubtful = 0
        known = (self.sequence_id, self._position() - self.base)
        effects: list[Effect] = []
        if known[1] > 0 and (peer.sequence_id, peer.upto) < known:
            effects.append(PeerForgot(peer.sequence_id, peer.upto))
        if self.restored:
            return effects + self._renew(peer, now)
        if not self._confirms(peer):
            return effects + self._fill_window(now)
        return effects + self._order_ack(peer, now)

    def _overtaken(self, peer: PeerState, now: float) -> list[Effect]:
        """Take of what was said before the last question what stays true: the order ack.

        What the peer tells behind it of its messages leans on that.
        """
        if self._talk is _Talk.OPEN:
            return self._order_ack(peer, now)
        if self._talk is _Talk.NO_LINK or self.restored or not self._confirms(peer):
            self.counters = self.counters._replace(ignored_acks=self.counters.ignored_acks + 1)
            return []
        self._confirmed = upto = self.base + peer.upto
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [Confirmed(upto)]

    def _renew(self, peer: PeerState, now: float) -> list[Effect]:
        """Count as delivered what the peer has of the backup; the rest goes in a new sequence."""
        sequence_id = restored_sequence_id(self.sequence_id, peer.sequence_id, int(now))
        effects: list[Effect] = [Renewed(sequence_id)]
        upto = self._accepted_of_backup(peer)
        if upto > self._position():
            self._confirmed = upto
            effects.insert(0, Confirmed(upto))
        return effects

    def _accepted_of_backup(self, peer: PeerState) -> int:
        """Lookup id up to which the peer has accepted what the backup held."""
        if peer.sequence_id < self.sequence_id:
            return 0
        if peer.sequence_id == self.sequence_id:
            return min(self.base + peer.upto, self.restored[-1].last)
        if began_by_restore(peer.sequence_id):
            return min(peer.upto, self.restored[-1].last)
        # Our own sequence ended before theirs began: nothing of it was left. What was admitted
        # after an earlier restore, and backed up before the peer was asked, was in no sequence
        # then; it is gone only if theirs began after that restore.
        upto, second = self.restored[0]
        for mark in self.restored[1:]:
            if began_after(peer.sequence_id, second):
                upto, second = mark
        return upto

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
        if self._talk is _Talk.NO_LINK:
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
        peer = PeerState(event.sequence_id, event.upto)
        if self.restored or not self._confirms(peer):
            return []
        self._confirmed = upto = self.base + peer.upto
        self.counters = self.counters._replace(last_ack=peer.upto, last_ack_time=now)
        return [Confirmed(upto)]

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
