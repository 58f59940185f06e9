"""The consumer's half of a file transfer: one file, fragment by fragment, in order.

Theory of operation: a handshake says which fragment is expected next; once it is answered the
consumer asks for that fragment, and takes only the one it expects. One that was there before is
acknowledged again. One beyond it shows a gap, as does one whose CRC32C does not fit: the expected
one is asked for, once for each gap. Silence makes it ask again, and acknowledges by that, so no
message on the line is needed for good. When everything has come, the digest decides whether the
file appears under its name; only then the producer is told. The table decides.
"""

from __future__ import annotations

from typing import Final

from dray.machine import Tick, Transition, always, but, nothing, on
from dray.model.transfer import TransferState
from dray.transfer.events import (
    Begin,
    Cancel,
    Checked,
    ConsumerEffect,
    ConsumerEvent,
    Disconnected,
    FragmentCame,
    Heard,
    Resume,
    Stirred,
    Suspend,
)
from dray.transfer.fetch import ASKING, ConsumerState, Fetch, Said
from dray.wire.transfer_frames import Cancelled, Farewell, Joined, JoinRefused, Resumed, Suspended

_S = ConsumerState
_STATES: Final = {
    _S.IDLE: TransferState.SUSPENDED,
    _S.HANDSHAKE: TransferState.DISCOVERING,
    _S.RECEIVING: TransferState.SENDING,
    _S.CHECKING: TransferState.WAITING,
    _S.SPOILED: TransferState.WAITING,
    _S.REPORTING: TransferState.WAITING,
    _S.HELD_HERE: TransferState.SUSPENDED,
    _S.HELD_THERE: TransferState.SUSPENDED,
    _S.DONE: TransferState.DONE,
    _S.FAILED: TransferState.FAILED,
    _S.CANCELLED: TransferState.CANCELLED,
    _S.TIMED_OUT: TransferState.TIMED_OUT,
}

_C = Fetch
_IDLE, _HANDSHAKE, _RECEIVING, _CHECKING = _S.IDLE, _S.HANDSHAKE, _S.RECEIVING, _S.CHECKING
_SPOILED, _REPORTING, _HELD_HERE, _HELD_THERE = (
    _S.SPOILED,
    _S.REPORTING,
    _S.HELD_HERE,
    _S.HELD_THERE,
)
_OPEN = (_IDLE, _HANDSHAKE, _RECEIVING, _CHECKING, _SPOILED, _REPORTING, _HELD_HERE, _HELD_THERE)
_HELD = (_HELD_HERE, _HELD_THERE)
_MAY_BE_HELD = (_HANDSHAKE, _RECEIVING, _SPOILED, _HELD_THERE)

CONSUMER: Final[tuple[Transition, ...]] = (
    on(_IDLE, Begin, _C.has_file, _C.begin_with_file, _REPORTING),
    on(_IDLE, Begin, always, _C.begin, _HANDSHAKE),
    on(but(_OPEN, _IDLE), Begin, always, nothing),
    on((_RECEIVING, _SPOILED, _HELD_THERE), Joined, _C.is_of_this_round, nothing),
    on(_SPOILED, Joined, _C.is_file_empty, _C.start_over_empty, _CHECKING),
    on(_SPOILED, Joined, always, _C.start_over, _RECEIVING),
    on(_RECEIVING, Joined, always, _C.ask),
    on((_HANDSHAKE, _HELD_THERE), Joined, _C.misses_fragments, _C.ask, _RECEIVING),
    on((_HANDSHAKE, _HELD_THERE), Joined, always, _C.check, _CHECKING),
    on((_IDLE, _CHECKING, _REPORTING, _HELD_HERE), Joined, always, nothing),
    on(_RECEIVING, FragmentCame, _C.came_before, _C.acknowledge),
    on(_RECEIVING, FragmentCame, _C.is_behind_known_gap, nothing),
    on(_RECEIVING, FragmentCame, _C.is_of_no_use, _C.ask_for_expected),
    on(_RECEIVING, FragmentCame, _C.is_last, _C.take_last_fragment, _CHECKING),
    on(_RECEIVING, FragmentCame, always, _C.take_fragment),
    on(_HELD_HERE, FragmentCame, always, _C.tell_held),
    # The producer goes on, and its word of that was lost.
    on(_HELD_THERE, FragmentCame, always, _C.shake_hands, _HANDSHAKE),
    on((_IDLE, _HANDSHAKE, _CHECKING, _SPOILED, _REPORTING), FragmentCame, always, nothing),
    on(_CHECKING, Checked, _C.is_good, _C.tell_verified, _REPORTING),
    on(_CHECKING, Checked, _C.may_fetch_again, _C.tell_spoiled, _SPOILED),
    on(_CHECKING, Checked, always, _C.end_corrupt, _S.FAILED),
    on(but(_OPEN, _CHECKING), Checked, always, nothing),
    on(_REPORTING, Farewell, always, _C.end_told, _S.DONE),
    on(but(_OPEN, _REPORTING), Farewell, always, nothing),
    on(_MAY_BE_HELD, Suspended, always, _C.be_held, _HELD_THERE),
    on(but(_OPEN, *_MAY_BE_HELD), Suspended, always, nothing),
    on(_HELD, Resumed, always, _C.shake_hands, _HANDSHAKE),
    on(but(_OPEN, *_HELD), Resumed, always, nothing),
    # With the whole file there, nothing is left to stop.
    on((_CHECKING, _REPORTING), Suspend, always, nothing),
    on(but(_OPEN, _CHECKING, _REPORTING), Suspend, always, _C.hold, _HELD_HERE),
    on(_HELD, Resume, always, _C.resume, _HANDSHAKE),
    on(but(_OPEN, *_HELD), Resume, always, nothing),
    on(_RECEIVING, Disconnected, always, _C.shake_hands, _HANDSHAKE),
    on(but(_OPEN, _RECEIVING), Disconnected, always, nothing),
    on(_HANDSHAKE, JoinRefused, _C.never_joined, _C.end_refused, _S.FAILED),
    on(_OPEN, JoinRefused, always, nothing),
    on(_OPEN, Cancel, always, _C.cancel, _S.CANCELLED),
    on(_OPEN, Cancelled, _C.names_error, _C.end_failed, _S.FAILED),
    on(_OPEN, Cancelled, always, _C.end_cancelled, _S.CANCELLED),
    on(_OPEN, Stirred, always, _C.note_life),
    on(_REPORTING, Tick, _C.is_silent_too_long, _C.end_untold, _S.DONE),
    on(_MAY_BE_HELD, Tick, _C.is_silent_too_long, _C.end_timed_out, _S.TIMED_OUT),
    on((_HANDSHAKE, _HELD_THERE), Tick, _C.must_say_again, _C.shake_hands_again),
    on(_RECEIVING, Tick, _C.must_say_again, _C.ask_again),
    on(_SPOILED, Tick, _C.must_say_again, _C.tell_spoiled_again),
    on(_REPORTING, Tick, _C.must_say_again, _C.tell_verified_again),
    on(_RECEIVING, Tick, _C.must_acknowledge, _C.acknowledge),
    on(_OPEN, Tick, always, nothing),
)
"""The consumer: `handle` takes every decision from here."""


class Consumer(Fetch):
    """One file that is being received."""

    table = CONSUMER

    @property
    def state(self) -> TransferState:
        """The state of the transfer here."""
        return _STATES[self.stage]

    def handle(self, event: ConsumerEvent | Said, now: float) -> list[ConsumerEffect]:
        """Decide about one event."""
        if isinstance(event, Heard):
            self._alive(now)
            # Frames that only a consumer says are not meant for this end.
            return super().handle(event.message, now) if isinstance(event.message, Said) else []
        if isinstance(event, FragmentCame):
            self._heard_at = now
        return super().handle(event, now)

    def deadline(self) -> float | None:
        """When to send Tick."""
        times = [] if self._ack_at is None else [self._ack_at]
        if self.stage in ASKING:
            times.append(self._retry_at)
            times.append(self._gives_up_at())
        return min(times, default=None)
