"""The actions of the consumer of a file transfer; the table in `consumer.py` says when they run."""

from __future__ import annotations

import enum
from typing import Final

from dray.errors import (
    DrayError,
    LargeMessageCorrupt,
    TransferCancelled,
    TransferRefused,
    TransferTimeout,
    from_code,
)
from dray.machine import Machine
from dray.model.limits import (
    MIB,
    TRANSFER_ACK_DELAY_S,
    TRANSFER_FAREWELL_S,
    TRANSFER_RETRY_S,
    TRANSFER_RETRY_S_MAX,
    TRANSFER_SILENCE_S,
)
from dray.transfer.events import (
    AtConsumer,
    Check,
    Checked,
    ConsumerEffect,
    FragmentCame,
    Keep,
    StartOver,
    Tell,
    Terms,
    WriteFragment,
)
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

_ACKS_PER_WINDOW = 4
_ACK_BYTES = 2 * MIB
"""On the way through queue managers less than a window is under way."""
_SPOILED_MAX = 2
"""The most times that a file whose digest does not fit is fetched anew."""


class ConsumerState(enum.Enum):
    """The progress of the consumer."""

    IDLE = enum.auto()
    HANDSHAKE = enum.auto()
    RECEIVING = enum.auto()
    CHECKING = enum.auto()
    SPOILED = enum.auto()
    """The digest does not fit: the producer checks its file."""
    REPORTING = enum.auto()
    """The file is there; the producer is told until it says farewell."""
    HELD_HERE = enum.auto()
    HELD_THERE = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()
    CANCELLED = enum.auto()
    TIMED_OUT = enum.auto()


ASKING: Final = (
    ConsumerState.HANDSHAKE,
    ConsumerState.RECEIVING,
    ConsumerState.SPOILED,
    ConsumerState.REPORTING,
    ConsumerState.HELD_THERE,
)
"""States in which something is said again when nothing comes."""
Said = Joined | Suspended | Resumed | JoinRefused | Cancelled | Farewell
ConsumerOccasion = Said | AtConsumer


class Fetch(Machine[ConsumerState, ConsumerOccasion, ConsumerEffect]):
    """The conditions and actions of a consumer, and the state that they share."""

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
        super().__init__(ConsumerState.IDLE)
        self.key = key
        self.transfer_id = transfer_id
        self.terms = terms
        self.expected = expected
        self.consumer_id = ""
        self.error: DrayError | None = None
        self.farewell = False
        """Whether the producer is known to know that everything is there."""
        self._verified = verified
        self._silence_s = silence_s
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

    # ------------------------------------------------------------------------------ conditions

    def has_file(self, _event: object, _now: float) -> bool:
        """The file was there already, and its producer may not know."""
        return self._verified

    def is_of_this_round(self, message: Joined, _now: float) -> bool:
        """The producer has said so before."""
        return message.round == self._round

    def misses_fragments(self, _event: object, _now: float) -> bool:
        """A fragment is missing."""
        return self.expected < self.terms.fragment_count

    def is_file_empty(self, _event: object, _now: float) -> bool:
        """The file has no fragments."""
        return self.terms.fragment_count == 0

    def never_joined(self, _event: object, _now: float) -> bool:
        """The consumer has never joined."""
        return not self.consumer_id

    def names_error(self, message: Cancelled, _now: float) -> bool:
        """The producer names an error."""
        return bool(message.error)

    def came_before(self, piece: FragmentCame, _now: float) -> bool:
        """The fragment is there already."""
        return piece.number < self.expected

    def is_behind_known_gap(self, piece: FragmentCame, _now: float) -> bool:
        """A fragment before it is missing, and was asked for."""
        return piece.number > self.expected and self._asked == self.expected

    def is_of_no_use(self, piece: FragmentCame, _now: float) -> bool:
        """It is not the expected fragment, or it is damaged."""
        fits = piece.intact and piece.size == self.terms.length(piece.number)
        return piece.number != self.expected or not fits

    def is_last(self, piece: FragmentCame, _now: float) -> bool:
        """It is the last fragment."""
        return piece.number + 1 == self.terms.fragment_count

    def is_good(self, event: Checked, _now: float) -> bool:
        """The digest fits."""
        return event.good

    def may_fetch_again(self, _event: object, _now: float) -> bool:
        """The file was fetched anew less than twice."""
        return self._spoiled < _SPOILED_MAX

    def is_silent_too_long(self, _event: object, now: float) -> bool:
        """Nothing was heard of the producer for too long."""
        return self._gives_up_at() <= now

    def must_say_again(self, _event: object, now: float) -> bool:
        """The time to say it again has come."""
        return self._retry_at <= now

    def must_acknowledge(self, _event: object, now: float) -> bool:
        """The time to acknowledge has come."""
        return self._ack_at is not None and self._ack_at <= now

    # ----------------------------------------------------------------------- beginning, ending

    def begin(self, event: object, now: float) -> list[ConsumerEffect]:
        """Handshake."""
        self._heard_at = now
        return self.shake_hands(event, now)

    def begin_with_file(self, event: object, now: float) -> list[ConsumerEffect]:
        """Verified."""
        self._heard_at = now
        return self.tell_verified(event, now)

    def shake_hands(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Handshake: say which fragment is expected."""
        self._say_from(now)
        self._ack_at = None
        return [Tell(Handshake(self.key, self.expected, self._resuming))]

    def cancel(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Cancelled, Keep."""
        sentence = f"file transfer {self.transfer_id} was cancelled here"
        self._end(TransferCancelled(sentence, transfer_id=self.transfer_id))
        return [Tell(Cancelled(self.key)), Keep()]

    def end_refused(self, message: JoinRefused, _now: float) -> list[ConsumerEffect]:
        """Keep: the producer does not take this consumer."""
        sentence = f"file transfer {self.transfer_id} is refused: {message.sentence}"
        self._end(TransferRefused(sentence, transfer_id=self.transfer_id))
        return [Keep()]

    def end_cancelled(self, _message: Cancelled, _now: float) -> list[ConsumerEffect]:
        """Keep: the producer has cancelled."""
        sentence = f"file transfer {self.transfer_id} was cancelled by its producer"
        fields: dict[str, object] = {"transfer_id": self.transfer_id}
        self._end(from_code(TransferCancelled.code, sentence, fields))
        return [Keep()]

    def end_failed(self, message: Cancelled, _now: float) -> list[ConsumerEffect]:
        """Keep: the producer has failed."""
        fields: dict[str, object] = {"transfer_id": self.transfer_id, "path": ""}
        self._end(from_code(message.error, message.sentence, fields))
        return [Keep()]

    def end_told(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Keep: both ends know that the file is there."""
        self.farewell = True
        return [Keep()]

    def end_untold(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Keep: the file is there; whether the producer knows is not certain."""
        return [Keep()]

    def end_timed_out(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Keep: resume it when the producer is there."""
        sentence = (
            f"the producer of file transfer {self.transfer_id} was silent for {self._silence_s:g}"
            " s; the received data is kept, so resume the transfer when the producer is there, or"
            " cancel it"
        )
        self._end(TransferTimeout(sentence, transfer_id=self.transfer_id))
        return [Keep()]

    def end_corrupt(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Cancelled with the error, Keep: the digest never fits."""
        self._spoiled += 1
        corrupt = LargeMessageCorrupt(
            f"file transfer {self.transfer_id}: the received file differs from the offered"
            " one, even after fetching it again; check the disks of both ends",
            sequence_id=self.transfer_id,
        )
        self._end(corrupt)
        return [Tell(Cancelled(self.key, corrupt.code, str(corrupt))), Keep()]

    # ---------------------------------------------------------------------- fragment by fragment

    def ask(self, message: Joined, now: float) -> list[ConsumerEffect]:
        """Note the round; Wanted: ask for the expected fragment."""
        self._join(message)
        self._say_from(now)
        return [self._want()]

    def check(self, message: Joined, _now: float) -> list[ConsumerEffect]:
        """Note the round; Check."""
        self._join(message)
        return [Check()]

    def start_over(self, message: Joined, now: float) -> list[ConsumerEffect]:
        """StartOver; Wanted: ask for the first fragment."""
        self._round, self.expected, self._acked = message.round, 0, 0
        self._say_from(now)
        return [StartOver(), self._want()]

    def start_over_empty(self, message: Joined, _now: float) -> list[ConsumerEffect]:
        """StartOver, Check."""
        self._round, self.expected, self._acked = message.round, 0, 0
        return [StartOver(), Check()]

    def acknowledge(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Acked."""
        return [self._ack()]

    def ask_for_expected(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Wanted: ask for the expected fragment."""
        return [self._want()]

    def take_fragment(self, piece: FragmentCame, now: float) -> list[ConsumerEffect]:
        """WriteFragment; Acked, now or soon."""
        self._took(piece.number, now)
        effects: list[ConsumerEffect] = [WriteFragment(piece.number)]
        if self.expected - self._acked >= self._ack_every:
            effects.append(self._ack())
        elif self._ack_at is None:
            self._ack_at = now + TRANSFER_ACK_DELAY_S
        return effects

    def take_last_fragment(self, piece: FragmentCame, now: float) -> list[ConsumerEffect]:
        """WriteFragment, Acked, Check."""
        self._took(piece.number, now)
        return [WriteFragment(piece.number), self._ack(), Check()]

    def tell_spoiled(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Spoiled."""
        self._spoiled += 1
        self._heard_at = now
        self._say_from(now)
        return [Tell(Spoiled(self.key))]

    def tell_verified(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Verified."""
        self._told_at = now
        self._say_from(now)
        return [Tell(Verified(self.key))]

    # ------------------------------------------------------------------------ held, and resumed

    def hold(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Keep, Suspended."""
        self._ack_at = None
        return [Keep(), Tell(Suspended(self.key))]

    def tell_held(self, _event: object, _now: float) -> list[ConsumerEffect]:
        """Suspended."""
        return [Tell(Suspended(self.key))]

    def be_held(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Keep."""
        self._resuming = False
        self._say_from(now)
        self._ack_at = None
        return [Keep()]

    def resume(self, event: object, now: float) -> list[ConsumerEffect]:
        """Handshake that resumes."""
        self._resuming = True
        self._heard_at = now
        return self.shake_hands(event, now)

    # ------------------------------------------------------------------------------------ time

    def note_life(self, _event: object, now: float) -> list[ConsumerEffect]:
        """The line is slow, not dead."""
        self._alive(now)
        return []

    def shake_hands_again(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Handshake, later and later."""
        self._say_later(now)
        return [Tell(Handshake(self.key, self.expected, self._resuming))]

    def ask_again(self, event: object, now: float) -> list[ConsumerEffect]:
        """Acked if it is time; Wanted, later and later."""
        effects: list[ConsumerEffect] = [self._ack()] if self.must_acknowledge(event, now) else []
        self._say_later(now)
        return [*effects, self._want()]

    def tell_spoiled_again(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Spoiled, later and later."""
        self._say_later(now)
        return [Tell(Spoiled(self.key))]

    def tell_verified_again(self, _event: object, now: float) -> list[ConsumerEffect]:
        """Verified."""
        self._retry_at = now + self._retry_s
        return [Tell(Verified(self.key))]

    # --------------------------------------------------------------------- what they are made of

    def _end(self, error: DrayError) -> None:
        self.error = error
        self._ack_at = None

    def _say_from(self, now: float) -> None:
        self._retry_s = TRANSFER_RETRY_S
        self._retry_at = now + self._retry_s

    def _say_later(self, now: float) -> None:
        self._retry_s = min(2 * self._retry_s, TRANSFER_RETRY_S_MAX)
        self._retry_at = now + self._retry_s

    def _alive(self, now: float) -> None:
        self._heard_at = now
        if self.stage in ASKING:
            self._retry_at = max(self._retry_at, now + self._retry_s)

    def _gives_up_at(self) -> float:
        if self.stage is ConsumerState.REPORTING:
            return self._told_at + TRANSFER_FAREWELL_S
        return self._heard_at + self._silence_s

    def _join(self, message: Joined) -> None:
        self._round, self.consumer_id, self._resuming = message.round, message.consumer_id, False

    def _want(self) -> Tell:
        self._asked = self._acked = self.expected
        self._ack_at = None
        return Tell(Wanted(self.key, self._round, self.expected))

    def _took(self, number: int, now: float) -> None:
        self._asked = -1
        self.expected = number + 1
        self._retry_s = TRANSFER_RETRY_S
        self._alive(now)

    def _ack(self) -> Tell:
        self._acked, self._ack_at = self.expected, None
        return Tell(Acked(self.key, self._round, self.expected))
