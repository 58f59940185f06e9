"""The consumer's half of a file transfer: one file, fragment by fragment, in order.

Theory of operation: a handshake says which fragment is expected next; once it is answered the
consumer asks for that fragment, and takes only the one it expects. One that was there before is
acknowledged again. One beyond it shows a gap, as does one whose CRC32C does not fit: the expected
one is asked for, once for each gap. Silence makes it ask again, and acknowledges by that, so no
message on the line is needed for good. When everything has come, the digest decides whether the
file appears under its name; only then the producer is told.
"""

from __future__ import annotations

import enum
from typing import assert_never

from dray.errors import (
    DrayError,
    LargeMessageCorrupt,
    TransferCancelled,
    TransferRefused,
    TransferTimeout,
    from_code,
)
from dray.model.limits import (
    MIB,
    TRANSFER_ACK_DELAY_S,
    TRANSFER_FAREWELL_S,
    TRANSFER_RETRY_S,
    TRANSFER_RETRY_S_MAX,
    TRANSFER_SILENCE_S,
)
from dray.model.transfer import TransferState
from dray.transfer.events import (
    Begin,
    Cancel,
    Check,
    Checked,
    ConsumerEffect,
    ConsumerEvent,
    Heard,
    Keep,
    PieceCame,
    Resume,
    StartOver,
    Stirred,
    Store,
    Suspend,
    Tell,
    Terms,
    Tick,
    WayLost,
)
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

_ACKS_PER_WINDOW = 4
_ACK_BYTES = 2 * MIB
"""On the way through queue managers less than a window is under way."""
_SPOILED_MAX = 2
"""How often a file whose digest does not fit is fetched anew."""


class Phase(enum.Enum):
    """How far the consumer has come."""

    IDLE = enum.auto()
    HANDSHAKE = enum.auto()
    RECEIVING = enum.auto()
    CHECKING = enum.auto()
    SPOILED = enum.auto()
    TELLING = enum.auto()
    HELD_HERE = enum.auto()
    HELD_THERE = enum.auto()
    OVER = enum.auto()


_STATES = {
    Phase.IDLE: TransferState.SUSPENDED,
    Phase.HANDSHAKE: TransferState.DISCOVERING,
    Phase.RECEIVING: TransferState.SENDING,
    Phase.CHECKING: TransferState.WAITING,
    Phase.SPOILED: TransferState.WAITING,
    Phase.TELLING: TransferState.WAITING,
    Phase.HELD_HERE: TransferState.SUSPENDED,
    Phase.HELD_THERE: TransferState.SUSPENDED,
}
_ASKING = (Phase.HANDSHAKE, Phase.RECEIVING, Phase.SPOILED, Phase.TELLING, Phase.HELD_THERE)
"""Phases in which something is said again when nothing comes."""
_MAY_BE_HELD = (Phase.HANDSHAKE, Phase.RECEIVING, Phase.SPOILED, Phase.HELD_THERE)


class Consumer:
    """One file that is being received."""

    def __init__(
        self,
        key: str,
        transfer_id: str,
        terms: Terms,
        *,
        expected: int = 0,
        verified: bool = False,
        silence_s: float = TRANSFER_SILENCE_S,
    ) -> None:
        """Be consumer `key`; `expected` is the first fragment that is not there yet.

        `verified` is one whose file is there, and whose producer may not know.
        """
        self.key = key
        self.transfer_id = transfer_id
        self.terms = terms
        self.expected = expected
        self.consumer_id = ""
        self.phase = Phase.IDLE
        self.error: DrayError | None = None
        self.farewell = False
        """Whether the producer is known to know that everything is there."""
        self._verified = verified
        self._silence_s = silence_s
        self._ended = TransferState.DONE
        self._round = 0
        self._acked = expected
        self._ack_at: float | None = None
        self._asked = -1
        """The fragment that was asked for since the last one came."""
        self._spoiled = 0
        self._resuming = False
        self._retry_s = TRANSFER_RETRY_S
        self._retry_at = 0.0
        self._heard_at = 0.0
        self._told_at = 0.0
        per_window = terms.window_size // _ACKS_PER_WINDOW
        self._ack_every = max(1, min(per_window, _ACK_BYTES // terms.fragment_size))

    @property
    def state(self) -> TransferState:
        """How the transfer stands here."""
        return self._ended if self.phase is Phase.OVER else _STATES[self.phase]

    def handle(self, event: ConsumerEvent, now: float) -> list[ConsumerEffect]:
        """Decide about one event."""
        if self.phase is Phase.OVER:
            return []
        match event:
            case Begin():
                return self._begin(now)
            case Heard(message):
                return self._heard(message, now)
            case PieceCame(number, size, intact):
                return self._piece(number, size, intact=intact, now=now)
            case Stirred():
                self._alive(now)
                return []
            case WayLost():
                return self._way_lost(now)
            case Suspend():
                return self._suspend()
            case Resume():
                return self._resume(now)
            case Cancel():
                cancelled = TransferCancelled(
                    f"file transfer {self.transfer_id} was cancelled here",
                    transfer_id=self.transfer_id,
                )
                self._end(TransferState.CANCELLED, cancelled)
                return [Tell(Cancelled(self.key)), Keep()]
            case Checked(good):
                return self._checked(good=good, now=now)
            case Tick():
                return self._tick(now)
            case _:
                assert_never(event)

    def deadline(self) -> float | None:
        """When to send Tick."""
        times = [] if self._ack_at is None else [self._ack_at]
        if self.phase in _ASKING:
            times.append(self._retry_at)
            times.append(self._gives_up_at())
        return min(times, default=None)

    # ----------------------------------------------------------------------- beginning, ending

    def _begin(self, now: float) -> list[ConsumerEffect]:
        if self.phase is not Phase.IDLE:
            return []
        self._heard_at = now
        if self._verified:
            return self._tell_verified(now)
        return self._shake_hands(now)

    def _shake_hands(self, now: float) -> list[ConsumerEffect]:
        self._enter(Phase.HANDSHAKE, now)
        self._ack_at = None
        return [Tell(Handshake(self.key, self.expected, self._resuming))]

    def _end(self, state: TransferState, error: DrayError | None) -> None:
        self.phase, self._ended, self.error = Phase.OVER, state, error
        self._ack_at = None

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase = phase
        self._retry_s = TRANSFER_RETRY_S
        self._retry_at = now + self._retry_s

    # -------------------------------------------------------------------- what a producer says

    def _heard(self, message: AnyMessage, now: float) -> list[ConsumerEffect]:
        self._alive(now)
        match message:
            case Joined():
                return self._joined(message, now)
            case Suspended():
                if self.phase in _MAY_BE_HELD:
                    self._resuming = False
                    self._enter(Phase.HELD_THERE, now)
                    self._ack_at = None
                    return [Keep()]
                return []
            case Resumed():
                held = self.phase in (Phase.HELD_HERE, Phase.HELD_THERE)
                return self._shake_hands(now) if held else []
            case Refused(_, sentence):
                if self.phase is not Phase.HANDSHAKE or self.consumer_id:
                    return []
                refused = TransferRefused(
                    f"file transfer {self.transfer_id} is refused: {sentence}",
                    transfer_id=self.transfer_id,
                )
                self._end(TransferState.FAILED, refused)
                return [Keep()]
            case Cancelled(_, error, sentence):
                return self._cancelled_there(error, sentence)
            case Farewell():
                if self.phase is Phase.TELLING:
                    self.farewell = True
                    self._end(TransferState.DONE, None)
                    return [Keep()]
                return []
            case _:
                # What only a consumer says: not meant for this end.
                return []

    def _joined(self, message: Joined, now: float) -> list[ConsumerEffect]:
        if message.round == self._round and self.phase is not Phase.HANDSHAKE:
            return []
        if self.phase is Phase.SPOILED:
            self._round, self.expected, self._acked = message.round, 0, 0
            return [StartOver(), *self._ask(now)]
        if self.phase not in (Phase.HANDSHAKE, Phase.RECEIVING, Phase.HELD_THERE):
            return []
        self._round, self.consumer_id, self._resuming = message.round, message.consumer_id, False
        return self._ask(now)

    def _ask(self, now: float) -> list[ConsumerEffect]:
        """Ask for what is expected, or check the file if nothing is."""
        if self.expected == self.terms.fragment_count:
            return self._check()
        self._enter(Phase.RECEIVING, now)
        return [self._want()]

    def _want(self) -> Tell:
        self._asked = self._acked = self.expected
        self._ack_at = None
        return Tell(Wanted(self.key, self._round, self.expected))

    def _cancelled_there(self, code: str, sentence: str) -> list[ConsumerEffect]:
        fields: dict[str, object] = {"transfer_id": self.transfer_id}
        if not code:
            code = TransferCancelled.code
            sentence = f"file transfer {self.transfer_id} was cancelled by its producer"
            self._end(TransferState.CANCELLED, from_code(code, sentence, fields))
        else:
            self._end(TransferState.FAILED, from_code(code, sentence, {**fields, "path": ""}))
        return [Keep()]

    def _piece(self, number: int, size: int, *, intact: bool, now: float) -> list[ConsumerEffect]:
        self._heard_at = now
        if self.phase is Phase.HELD_HERE:
            return [Tell(Suspended(self.key))]
        if self.phase is Phase.HELD_THERE:
            # It goes on there, and the word of it was lost.
            return self._shake_hands(now)
        if self.phase is not Phase.RECEIVING:
            return []
        if number < self.expected:
            return [self._ack()]
        if number > self.expected:
            return [] if self._asked == self.expected else [self._want()]
        if not intact or size != self.terms.length(number):
            return [self._want()]
        return self._take(number, now)

    def _take(self, number: int, now: float) -> list[ConsumerEffect]:
        self._asked = -1
        self.expected = number + 1
        self._retry_s = TRANSFER_RETRY_S
        self._alive(now)
        effects: list[ConsumerEffect] = [Store(number)]
        if self.expected == self.terms.fragment_count:
            return [*effects, self._ack(), *self._check()]
        if self.expected - self._acked >= self._ack_every:
            effects.append(self._ack())
        elif self._ack_at is None:
            self._ack_at = now + TRANSFER_ACK_DELAY_S
        return effects

    def _ack(self) -> Tell:
        self._acked, self._ack_at = self.expected, None
        return Tell(Acked(self.key, self._round, self.expected))

    # --------------------------------------------------------------------------------- the end

    def _check(self) -> list[ConsumerEffect]:
        self.phase = Phase.CHECKING
        return [Check()]

    def _checked(self, *, good: bool, now: float) -> list[ConsumerEffect]:
        if self.phase is not Phase.CHECKING:
            return []
        if good:
            return self._tell_verified(now)
        self._spoiled += 1
        if self._spoiled > _SPOILED_MAX:
            corrupt = LargeMessageCorrupt(
                f"file transfer {self.transfer_id}: the received file differs from the offered"
                " one, even after fetching it again; check the disks of both ends",
                sequence_id=self.transfer_id,
            )
            self._end(TransferState.FAILED, corrupt)
            return [Tell(Cancelled(self.key, corrupt.code, str(corrupt))), Keep()]
        self._heard_at = now
        self._enter(Phase.SPOILED, now)
        return [Tell(Spoiled(self.key))]

    def _tell_verified(self, now: float) -> list[ConsumerEffect]:
        self._told_at = now
        self._enter(Phase.TELLING, now)
        return [Tell(Verified(self.key))]

    # ---------------------------------------------------------------------- what is asked here

    def _suspend(self) -> list[ConsumerEffect]:
        if self.phase in (Phase.CHECKING, Phase.TELLING):
            # Everything is there: nothing is left to stop.
            return []
        self.phase = Phase.HELD_HERE
        self._ack_at = None
        return [Keep(), Tell(Suspended(self.key))]

    def _resume(self, now: float) -> list[ConsumerEffect]:
        if self.phase not in (Phase.HELD_HERE, Phase.HELD_THERE):
            return []
        self._resuming = True
        self._heard_at = now
        return self._shake_hands(now)

    def _way_lost(self, now: float) -> list[ConsumerEffect]:
        return self._shake_hands(now) if self.phase is Phase.RECEIVING else []

    # ------------------------------------------------------------------------------------ time

    def _alive(self, now: float) -> None:
        self._heard_at = now
        if self.phase in _ASKING:
            self._retry_at = max(self._retry_at, now + self._retry_s)

    def _gives_up_at(self) -> float:
        if self.phase is Phase.TELLING:
            return self._told_at + TRANSFER_FAREWELL_S
        return self._heard_at + self._silence_s

    def _tick(self, now: float) -> list[ConsumerEffect]:
        if self.phase in _ASKING and self._gives_up_at() <= now:
            return self._give_up()
        effects: list[ConsumerEffect] = []
        if self._ack_at is not None and self._ack_at <= now:
            effects.append(self._ack())
        if self.phase in _ASKING and self._retry_at <= now:
            if self.phase is not Phase.TELLING:
                self._retry_s = min(2 * self._retry_s, TRANSFER_RETRY_S_MAX)
            self._retry_at = now + self._retry_s
            effects.append(self._say_again())
        return effects

    def _say_again(self) -> Tell:
        match self.phase:
            case Phase.HANDSHAKE | Phase.HELD_THERE:
                return Tell(Handshake(self.key, self.expected, self._resuming))
            case Phase.SPOILED:
                return Tell(Spoiled(self.key))
            case Phase.TELLING:
                return Tell(Verified(self.key))
            case _:
                return self._want()

    def _give_up(self) -> list[ConsumerEffect]:
        if self.phase is Phase.TELLING:
            # The file is there; only that its producer knows is not known.
            self._end(TransferState.DONE, None)
            return [Keep()]
        silent = TransferTimeout(
            f"the producer of file transfer {self.transfer_id} was silent for {self._silence_s:g}"
            " s; the received data is kept, so resume the transfer when the producer is there, or"
            " cancel it",
            transfer_id=self.transfer_id,
        )
        self._end(TransferState.TIMED_OUT, silent)
        return [Keep()]
