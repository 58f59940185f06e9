"""One consumer's copy at the producer: its table, its conditions and its actions.

Nothing goes to a consumer before its handshake, nor before it has asked for a fragment by number.
From there on fragments go out in order while its window has room, one for each `Room`. A request
sends the window back to its fragment (go-back-N); that recovers everything, so the producer resends
nothing by itself. Each `Joined` begins a round; a message of another round is old.
"""

from __future__ import annotations

import enum
from typing import Final

from dray.errors import DrayError, from_code
from dray.machine import Machine, Tick, Transition, always, but, nothing, on
from dray.model.transfer import TransferState
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    AtProducer,
    Cancel,
    CheckSource,
    Disconnected,
    Keep,
    ProducerEffect,
    Resume,
    Room,
    SendFragment,
    SourceBroke,
    SourceChecked,
    Suspend,
    Tell,
    Terms,
)
from dray.transfer.window import Window
from dray.wire.transfer_frames import (
    Acked,
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    JoinRefused,
    Resumed,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)

ConsumerSaid = Handshake | Wanted | Acked | Verified | Spoiled | Suspended | Cancelled
_Occasion = ConsumerSaid | AtProducer


class CopyState(enum.Enum):
    """The progress of one consumer."""

    NEW = enum.auto()
    """It has not joined."""
    JOINED = enum.auto()
    """It has asked for no fragment in this round."""
    SENDING = enum.auto()
    SILENT = enum.auto()
    """Nothing was heard of it for long; a handshake wakes it."""
    HELD_HERE = enum.auto()
    HELD_THERE = enum.auto()
    DONE = enum.auto()
    CANCELLED = enum.auto()
    FAILED = enum.auto()


class OfferState:
    """The state of an offer that all of its copies share."""

    def __init__(self, terms: Terms, discovery: Discovery, silence_s: float) -> None:
        """Begin with an offer that goes on."""
        self.terms = terms
        self.discovery = discovery
        self.silence_s = silence_s
        self.held = False
        """Whether the offer as a whole is suspended: a consumer that joins is suspended too."""
        self.ended: TransferState | None = None
        self.error: DrayError | None = None


class ConsumerCopy(Machine[CopyState, _Occasion, ProducerEffect]):
    """The progress of one consumer."""

    def __init__(
        self, offer: OfferState, key: str, consumer_id: str, window: Window, *, stage: CopyState
    ) -> None:
        """Begin in a state: new, or that of an earlier run of the program."""
        super().__init__(stage)
        self.key = key
        self.consumer_id = consumer_id
        self.window = window
        self.round = 0
        self.heard_at = 0.0
        self.error: DrayError | None = None
        self._offer = offer

    @property
    def state(self) -> TransferState:
        """The state of the copy, for those who look."""
        if self.stage is CopyState.SENDING and not self.window.has_room:
            return TransferState.WAITING
        return _STATES[self.stage]

    # ------------------------------------------------------------------------------ conditions

    def is_source_broken(self, _event: object, _now: float) -> bool:
        """The offer has failed."""
        return self._offer.error is not None

    def is_not_admitted(self, _event: object, now: float) -> bool:
        """The offer is over, or discovery admits nobody any more."""
        return self._offer.ended is not None or bool(self._offer.discovery.refusal(now))

    def is_offer_held(self, message: Handshake, _now: float) -> bool:
        """The offer is suspended, and the handshake does not resume."""
        return self._offer.held and not message.resume

    def does_not_resume(self, message: Handshake, _now: float) -> bool:
        """The handshake does not resume."""
        return not message.resume

    def may_not_decline(self, message: Cancelled, now: float) -> bool:
        """The offer is to many, or over, or another consumer has it."""
        return self._offer.discovery.many or self.is_not_admitted(message, now)

    def is_of_other_round(self, message: Wanted, _now: float) -> bool:
        """It speaks of another round."""
        return message.round != self.round

    def is_of_this_round(self, message: Acked, _now: float) -> bool:
        """It speaks of this round."""
        return message.round == self.round

    def is_not_long_over(self, message: Wanted, _now: float) -> bool:
        """The fragment is in the file, and was not acknowledged."""
        return self.window.base <= message.start <= self.window.count

    def names_error(self, message: Cancelled, _now: float) -> bool:
        """The consumer names an error."""
        return bool(message.error)

    def has_room(self, _event: object, _now: float) -> bool:
        """The window has room, and a fragment is left to send."""
        return self.window.has_room

    def is_silent_too_long(self, _event: object, now: float) -> bool:
        """Nothing was heard of the consumer for too long."""
        return self.heard_at + self._offer.silence_s <= now

    # --------------------------------------------------------------------------------- joining

    def tell_error(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Cancelled with the error of the offer."""
        return [Tell(_cancelled(self.key, self._offer.error))]

    def refuse(self, _event: object, now: float) -> list[ProducerEffect]:
        """JoinRefused."""
        sentence = "the offer is over"
        if self._offer.ended is None:
            sentence = self._offer.discovery.refusal(now)
        return [Tell(JoinRefused(self.key, sentence))]

    def admit_held(self, _event: object, now: float) -> list[ProducerEffect]:
        """Keep, Suspended."""
        self._offer.discovery.ask(now)
        return [Keep(), Tell(Suspended(self.key))]

    def admit(self, message: Handshake, now: float) -> list[ProducerEffect]:
        """Keep, Joined: that it joined is durable before anybody hears of it."""
        self._offer.discovery.ask(now)
        return [Keep(), *self.join(message, now)]

    def join(self, message: Handshake, now: float) -> list[ProducerEffect]:
        """Joined: another round."""
        count = self._offer.terms.fragment_count
        return self._join(message.expected if message.expected <= count else 0, now)

    def join_at_wanted(self, message: Wanted, now: float) -> list[ProducerEffect]:
        """Joined: another round, as after a handshake."""
        return self._join(min(message.start, self._offer.terms.fragment_count), now)

    def join_at_acked(self, message: Acked, now: float) -> list[ProducerEffect]:
        """Joined: another round, as after a handshake."""
        return self._join(min(message.upto, self._offer.terms.fragment_count), now)

    def tell_held(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Suspended."""
        return [Tell(Suspended(self.key))]

    # --------------------------------------------------------------------------------- sending

    def tell_round(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Joined: the round that is. Another one would chase it."""
        return [self._round()]

    def go_back(self, message: Wanted, _now: float) -> list[ProducerEffect]:
        """Send from that fragment on."""
        self.window.back_to(message.start)
        return []

    def move_window(self, message: Acked, _now: float) -> list[ProducerEffect]:
        """Move the window."""
        self.window.acked(message.upto)
        return []

    def send_fragment(self, _event: object, _now: float) -> list[ProducerEffect]:
        """SendFragment."""
        return [SendFragment(self.key, self.window.take())]

    def check_source(self, _event: object, _now: float) -> list[ProducerEffect]:
        """CheckSource."""
        return [CheckSource(self.key)]

    def begin_again(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Joined: all of the file once more, in another round."""
        self.round += 1
        self.window.anew(0)
        return [self._round()]

    def keep(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Keep."""
        return [Keep()]

    def tell_resumed(self, _event: object, now: float) -> list[ProducerEffect]:
        """Resumed."""
        self.heard_at = now
        return [Tell(Resumed(self.key))]

    # --------------------------------------------------------------------------------- the end

    def finish(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Keep, Farewell."""
        self.window.acked(self._offer.terms.fragment_count)
        return [Keep(), Tell(Farewell(self.key))]

    def tell_farewell(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Farewell."""
        return [Tell(Farewell(self.key))]

    def note_error(self, message: Cancelled, _now: float) -> list[ProducerEffect]:
        """Keep: the consumer's error is that of the copy."""
        self.error = from_code(message.error, message.sentence, {})
        return [Keep()]

    def decline(self, _event: object, now: float) -> list[ProducerEffect]:
        """Keep: the only consumer does not want the file, so nobody can have it."""
        self._offer.discovery.ask(now)
        return [Keep()]

    def decline_with_error(self, message: Cancelled, now: float) -> list[ProducerEffect]:
        """Keep, likewise, with the consumer's error."""
        self._offer.discovery.ask(now)
        return self.note_error(message, now)

    def tell_cancelled(self, _event: object, _now: float) -> list[ProducerEffect]:
        """Cancelled, with the error if there is one."""
        return [Tell(_cancelled(self.key, self.error))]

    def tell_broken(self, event: SourceBroke, _now: float) -> list[ProducerEffect]:
        """Cancelled with the error."""
        self.error = event.error
        return [Tell(_cancelled(self.key, self.error))]

    def _join(self, start: int, now: float) -> list[ProducerEffect]:
        self.window.anew(start)
        self.round = max(self.round + 1, int(now))
        return [self._round()]

    def _round(self) -> Tell:
        return Tell(Joined(self.key, self.consumer_id, self.round, self.window.base))


def _cancelled(key: str, error: DrayError | None) -> Cancelled:
    return Cancelled(key) if error is None else Cancelled(key, error.code, str(error))


_S = CopyState
_STATES: Final = {
    _S.NEW: TransferState.DISCOVERING,
    _S.JOINED: TransferState.WAITING,
    _S.SENDING: TransferState.SENDING,
    _S.SILENT: TransferState.SUSPENDED,
    _S.HELD_HERE: TransferState.SUSPENDED,
    _S.HELD_THERE: TransferState.SUSPENDED,
    _S.DONE: TransferState.DONE,
    _S.CANCELLED: TransferState.CANCELLED,
    _S.FAILED: TransferState.FAILED,
}
_C = ConsumerCopy
_NEW, _JOINED, _SENDING, _SILENT = _S.NEW, _S.JOINED, _S.SENDING, _S.SILENT
_HELD_HERE, _HELD_THERE = _S.HELD_HERE, _S.HELD_THERE
_EVERY = tuple(_S)
_MOVING = (_JOINED, _SENDING)
_STOPPED = (_SILENT, _HELD_HERE, _HELD_THERE)
_LIVE = (*_MOVING, *_STOPPED)
_GIVEN_UP = (_S.CANCELLED, _S.FAILED)

PRODUCER: Final[tuple[Transition, ...]] = (
    on(_NEW, Handshake, _C.is_source_broken, _C.tell_error),
    on(_NEW, Handshake, _C.is_not_admitted, _C.refuse),
    on(_NEW, Handshake, _C.is_offer_held, _C.admit_held, _HELD_HERE),
    on(_NEW, Handshake, always, _C.admit, _JOINED),
    on(_HELD_HERE, Handshake, _C.does_not_resume, _C.tell_held),
    on((_SILENT, _HELD_THERE), Handshake, _C.is_offer_held, _C.tell_held, _HELD_HERE),
    on(_LIVE, Handshake, always, _C.join, _JOINED),
    on(_MOVING, Wanted, _C.is_of_other_round, _C.tell_round),
    on(_MOVING, Wanted, _C.is_not_long_over, _C.go_back, _SENDING),
    on((_SILENT, _HELD_THERE), Wanted, always, _C.join_at_wanted, _JOINED),
    on(_HELD_HERE, Wanted, always, _C.tell_held),
    on((_NEW, *_MOVING), Wanted, always, nothing),
    on(_MOVING, Acked, _C.is_of_this_round, _C.move_window),
    on(_SILENT, Acked, _C.is_of_this_round, _C.join_at_acked, _JOINED),
    on((_NEW, *_LIVE, _S.DONE), Acked, always, nothing),
    on(_SENDING, Room, _C.has_room, _C.send_fragment),
    on(_EVERY, Room, always, nothing),
    on(_LIVE, Verified, always, _C.finish, _S.DONE),
    on(_NEW, Verified, always, nothing),
    on(_MOVING, Spoiled, always, _C.check_source, _JOINED),
    on(_STOPPED, Spoiled, always, _C.check_source),
    on(_NEW, Spoiled, always, nothing),
    on(_MOVING, SourceChecked, always, _C.begin_again, _JOINED),
    on(_STOPPED, SourceChecked, always, _C.begin_again),
    on(but(_EVERY, *_LIVE), SourceChecked, always, nothing),
    on((*_MOVING, _SILENT), Suspended, always, _C.keep, _HELD_THERE),
    on((_NEW, _HELD_HERE, _HELD_THERE, _S.DONE), Suspended, always, nothing),
    on(_LIVE, Suspend, always, _C.tell_held, _HELD_HERE),
    on(but(_EVERY, *_LIVE), Suspend, always, nothing),
    on(_STOPPED, Resume, always, _C.tell_resumed, _JOINED),
    on(but(_EVERY, *_STOPPED), Resume, always, nothing),
    on(_MOVING, Tick, _C.is_silent_too_long, _C.keep, _SILENT),
    on(_EVERY, Tick, always, nothing),
    on(_SENDING, Disconnected, always, nothing, _JOINED),
    # The word of its end may have been lost with the connection.
    on(_GIVEN_UP, Disconnected, always, _C.tell_cancelled),
    on(but(_EVERY, _SENDING, *_GIVEN_UP), Disconnected, always, nothing),
    on(_LIVE, Cancel, always, _C.tell_cancelled, _S.CANCELLED),
    on(but(_EVERY, *_LIVE), Cancel, always, nothing),
    on(_NEW, Cancelled, _C.may_not_decline, nothing),
    on(_NEW, Cancelled, _C.names_error, _C.decline_with_error, _S.FAILED),
    on(_NEW, Cancelled, always, _C.decline, _S.CANCELLED),
    on(_LIVE, Cancelled, _C.names_error, _C.note_error, _S.FAILED),
    on(_LIVE, Cancelled, always, _C.keep, _S.CANCELLED),
    on((_S.DONE, *_GIVEN_UP), Cancelled, always, nothing),
    on(_LIVE, SourceBroke, always, _C.tell_broken, _S.FAILED),
    on(but(_EVERY, *_LIVE), SourceBroke, always, nothing),
    *(
        on(_S.DONE, said, always, _C.tell_farewell)
        for said in (Handshake, Wanted, Verified, Spoiled)
    ),
    *(
        on(_GIVEN_UP, said, always, _C.tell_cancelled)
        for said in (Handshake, Wanted, Acked, Verified, Spoiled, Suspended)
    ),
)
"""One consumer's copy: `handle` takes every decision from here."""

ConsumerCopy.run(PRODUCER)
