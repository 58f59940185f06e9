"""The producer's half of a file transfer: one offer, and a copy for each of its consumers.

Theory of operation: nothing is sent to a consumer before its handshake, nor before it has asked for
a fragment by number. From there on fragments go out in order while its window has room, one for
each `Room` that the way to it announces. A request for a fragment sends the window back to it
(go-back-N); that recovers everything, so the producer resends nothing by itself. Each `Joined`
begins a round; what a consumer says of another round is old, and is answered with the round that
is. A consumer that is silent for long is suspended: it may come back with a handshake at any time,
in this life of the program or a later one.
"""

from __future__ import annotations

from typing import assert_never

from dray.errors import DrayError, from_code
from dray.model.limits import TRANSFER_SILENCE_S
from dray.model.transfer import TransferState
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Cancel,
    CheckSource,
    Heard,
    Keep,
    ProducerEffect,
    ProducerEvent,
    Resume,
    Room,
    SendPiece,
    SourceBroke,
    SourceChecked,
    Suspend,
    Tell,
    Terms,
    Tick,
    WayLost,
)
from dray.transfer.window import Window
from dray.wire.transfer_frames import (
    Acked,
    AnyMessage,
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    Refused,
    Resumed,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)

_MOVING = (TransferState.SENDING, TransferState.WAITING)
NOBODY, HERE, THERE = "", "here", "there"
"""The ends that asked for a suspension; none if the consumer only fell silent."""


class Copy:
    """The progress of one consumer."""

    def __init__(self, key: str, consumer_id: str, window: Window) -> None:
        """Begin as one that is silent; its handshake wakes it."""
        self.key = key
        self.consumer_id = consumer_id
        self.window = window
        self.state = TransferState.SUSPENDED
        self.held_by = NOBODY
        self.round = 0
        self.begun = False
        """Whether it has asked for fragments in this round."""
        self.heard_at = 0.0
        self.error: DrayError | None = None

    def settle(self) -> None:
        """Tell sending and waiting apart."""
        if self.state in _MOVING:
            moving = self.begun and self.window.has_room
            self.state = TransferState.SENDING if moving else TransferState.WAITING


class Producer:
    """One offered file."""

    def __init__(
        self, terms: Terms, discovery: Discovery, *, silence_s: float = TRANSFER_SILENCE_S
    ) -> None:
        """Begin without consumers; `restore` adds those of an earlier life of the program."""
        self.terms = terms
        self.discovery = discovery
        self.copies: dict[str, Copy] = {}
        self.error: DrayError | None = None
        self._silence_s = silence_s
        self._ended: TransferState | None = None
        self._held = False
        """Whether the offer as a whole is suspended: who joins is, too."""

    @property
    def state(self) -> TransferState:
        """How the offer as a whole stands."""
        if self._ended is not None:
            return self._ended
        states = [copy.state for copy in self.copies.values()]
        # What has had its end is not held up any more: nobody would ever resume it.
        ended = bool(states) and not self.discovery.open and all(state.final for state in states)
        if self._held and not ended and not any(state in _MOVING for state in states):
            return TransferState.SUSPENDED
        for state in (*_MOVING, TransferState.SUSPENDED):
            if state in states and (state in _MOVING or not self.discovery.open):
                return state
        if self.discovery.open:
            return TransferState.DISCOVERING
        for state in (TransferState.DONE, TransferState.FAILED, TransferState.CANCELLED):
            if state in states:
                return state
        return TransferState.TIMED_OUT

    def restore(self, key: str, consumer_id: str, start: int, state: TransferState) -> None:
        """Remember a consumer of an earlier life; one that was not done may come back."""
        window = Window(self.terms.window_size, self.terms.fragment_count, start)
        copy = self.copies[key] = Copy(key, consumer_id, window)
        if state.final:
            copy.state = state
        self.discovery.rejoined()

    def handle(self, event: ProducerEvent, now: float) -> list[ProducerEffect]:
        """Decide about one event."""
        match event:
            case Heard(message):
                return self._heard(message, now)
            case Room(key):
                return self._room(key)
            case WayLost(key):
                return self._way_lost(key)
            case Suspend(key):
                return self._suspend(key)
            case Resume(key):
                return self._resume(key, now)
            case Cancel(key):
                return self._cancel(key)
            case SourceChecked(key):
                return self._begin_again(key)
            case SourceBroke(error):
                return self._break(error)
            case Tick():
                return self._tick(now)
            case _:
                assert_never(event)

    def deadline(self) -> float | None:
        """When to send Tick."""
        if self._ended is not None:
            return None
        times = [
            copy.heard_at + self._silence_s
            for copy in self.copies.values()
            if copy.state in _MOVING
        ]
        closes = self.discovery.deadline()
        if closes is not None:
            times.append(closes)
        return min(times, default=None)

    # -------------------------------------------------------------------- what a consumer says

    def _heard(self, message: AnyMessage, now: float) -> list[ProducerEffect]:
        copy = self.copies.get(message.key)
        if copy is None:
            return self._stranger(message, now)
        copy.heard_at = now
        if copy.state is TransferState.DONE:
            wants = isinstance(message, Handshake | Verified | Wanted | Spoiled)
            return [Tell(Farewell(copy.key))] if wants else []
        if copy.state.final:
            ended = isinstance(message, Cancelled)
            return [] if ended else [Tell(self._over(copy))]
        match message:
            case Handshake():
                return self._handshake(copy, message, now)
            case Wanted(_, round_, start):
                return self._wanted(copy, round_, start, now)
            case Acked(_, round_, upto):
                return self._acked(copy, round_, upto, now)
            case Verified():
                copy.state = TransferState.DONE
                copy.window.acked(self.terms.fragment_count)
                return [Keep(), Tell(Farewell(copy.key))]
            case Spoiled():
                copy.begun = False
                copy.settle()
                return [CheckSource(copy.key)]
            case Suspended():
                return self._suspended_there(copy)
            case Cancelled(_, code, sentence):
                return self._cancelled_there(copy, code, sentence)
            case _:
                # What only a producer says: not meant for this end.
                return []

    def _stranger(self, message: AnyMessage, now: float) -> list[ProducerEffect]:
        if isinstance(message, Cancelled):
            return self._declined(message, now)
        if not isinstance(message, Handshake):
            return []
        if self.error is not None:
            return [Tell(Cancelled(message.key, self.error.code, str(self.error)))]
        if self._ended is not None:
            return [Tell(Refused(message.key, "the offer is over"))]
        sentence = self.discovery.ask(now)
        if sentence:
            return [Tell(Refused(message.key, sentence))]
        copy = self._newcomer(message.key, now)
        # That it has joined is durable before it hears of it: no one else can be told the same.
        return [Keep(), *self._handshake(copy, message, now)]

    def _declined(self, message: Cancelled, now: float) -> list[ProducerEffect]:
        """The only consumer declines the file: nobody else can have it."""
        if self._ended is not None or self.discovery.many or self.discovery.ask(now):
            return []
        copy = self._newcomer(message.key, now)
        return self._cancelled_there(copy, message.error, message.sentence)

    def _newcomer(self, key: str, now: float) -> Copy:
        window = Window(self.terms.window_size, self.terms.fragment_count)
        copy = self.copies[key] = Copy(key, str(len(self.copies) + 1), window)
        copy.heard_at = now
        return copy

    def _handshake(self, copy: Copy, message: Handshake, now: float) -> list[ProducerEffect]:
        if message.resume or copy.held_by == THERE:
            copy.held_by = NOBODY
        if self._held and not message.resume:
            copy.held_by = HERE
        if copy.held_by == HERE:
            return [Tell(Suspended(copy.key))]
        start = message.expected if message.expected <= self.terms.fragment_count else 0
        return self._join(copy, start, now)

    def _join(self, copy: Copy, start: int, now: float) -> list[ProducerEffect]:
        copy.window.anew(start)
        copy.round = max(copy.round + 1, int(now))
        copy.begun = False
        copy.state = TransferState.WAITING
        return [self._tell_round(copy)]

    def _tell_round(self, copy: Copy) -> Tell:
        return Tell(Joined(copy.key, copy.consumer_id, copy.round, copy.window.base))

    def _wanted(self, copy: Copy, round_: int, start: int, now: float) -> list[ProducerEffect]:
        if copy.held_by == HERE:
            return [Tell(Suspended(copy.key))]
        copy.held_by = NOBODY
        if copy.state not in _MOVING:
            # It had fallen silent, or this program has: as good as a handshake.
            return self._join(copy, min(start, self.terms.fragment_count), now)
        if round_ != copy.round:
            # Old, and no reason to begin another round: two of them would chase each other.
            return [self._tell_round(copy)]
        if copy.window.back_to(start):
            copy.begun = True
            copy.settle()
        return []

    def _acked(self, copy: Copy, round_: int, upto: int, now: float) -> list[ProducerEffect]:
        if round_ != copy.round:
            return []
        if copy.state not in _MOVING:
            return [] if copy.held_by else self._wanted(copy, round_, upto, now)
        copy.window.acked(upto)
        copy.settle()
        return []

    def _suspended_there(self, copy: Copy) -> list[ProducerEffect]:
        if copy.held_by:
            return []
        copy.held_by = THERE
        copy.state = TransferState.SUSPENDED
        return [Keep()]

    def _cancelled_there(self, copy: Copy, code: str, sentence: str) -> list[ProducerEffect]:
        copy.state = TransferState.CANCELLED
        if code:
            copy.state = TransferState.FAILED
            copy.error = from_code(code, sentence, {})
        return [Keep()]

    # ---------------------------------------------------------------------- what is asked here

    def _room(self, key: str) -> list[ProducerEffect]:
        copy = self.copies.get(key)
        if copy is None or copy.state is not TransferState.SENDING:
            return []
        number = copy.window.take()
        copy.settle()
        return [SendPiece(key, number)]

    def _way_lost(self, key: str) -> list[ProducerEffect]:
        copy = self.copies.get(key)
        if copy is None:
            return []
        if copy.state in (TransferState.CANCELLED, TransferState.FAILED):
            # The word of it may have been lost with the way.
            return [Tell(self._over(copy))]
        copy.begun = False
        copy.settle()
        return []

    def _unfinished(self, key: str) -> list[Copy]:
        """The copies meant by a key or consumer id, or all, that are still to be finished."""
        return [
            copy
            for copy in self.copies.values()
            if key in ("", copy.key, copy.consumer_id) and not copy.state.final
        ]

    def _suspend(self, key: str) -> list[ProducerEffect]:
        self._held = self._held or not key
        told = self._unfinished(key)
        for copy in told:
            copy.held_by = HERE
            copy.state = TransferState.SUSPENDED
        return [Keep(), *(Tell(Suspended(copy.key)) for copy in told)]

    def _resume(self, key: str, now: float) -> list[ProducerEffect]:
        self._held = self._held and bool(key)
        told = [copy for copy in self._unfinished(key) if copy.state is TransferState.SUSPENDED]
        for copy in told:
            copy.held_by = NOBODY
            copy.heard_at = now
            copy.begun = False
            copy.state = TransferState.WAITING
        return [Keep(), *(Tell(Resumed(copy.key)) for copy in told)]

    def _cancel(self, key: str) -> list[ProducerEffect]:
        effects: list[ProducerEffect] = []
        if not key:
            self.discovery.close()
            self._ended = TransferState.CANCELLED
        for copy in self._unfinished(key):
            copy.state = TransferState.CANCELLED
            effects.append(Tell(self._over(copy)))
        return [Keep(), *effects]

    def _begin_again(self, key: str) -> list[ProducerEffect]:
        """The source is what it was, so what that consumer has is not: all of it once more."""
        copy = self.copies.get(key)
        if copy is None or copy.state.final:
            return []
        copy.round += 1
        copy.window.anew(0)
        if copy.state in _MOVING:
            copy.begun = False
            copy.settle()
        return [self._tell_round(copy)]

    def _break(self, error: DrayError) -> list[ProducerEffect]:
        self.error = error
        self.discovery.close()
        self._ended = TransferState.FAILED
        effects: list[ProducerEffect] = []
        for copy in self._unfinished(""):
            copy.state, copy.error = TransferState.FAILED, error
            effects.append(Tell(self._over(copy)))
        return [Keep(), *effects]

    def _tick(self, now: float) -> list[ProducerEffect]:
        effects: list[ProducerEffect] = []
        was_open = self.discovery.open
        self.discovery.tick(now)
        if was_open and not self.discovery.open:
            effects.append(Keep())
        for copy in self.copies.values():
            if copy.state in _MOVING and copy.heard_at + self._silence_s <= now:
                copy.begun = False
                copy.state = TransferState.SUSPENDED
                effects.append(Keep())
        return effects

    def _over(self, copy: Copy) -> Cancelled:
        if copy.error is None:
            return Cancelled(copy.key)
        return Cancelled(copy.key, copy.error.code, str(copy.error))
