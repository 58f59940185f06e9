"""The producer's half of a file transfer: one offer, and a copy for each of its consumers.

Each copy decides by its own table (`copies.py`). Here is what concerns the offer as a whole: who
may join, how long, and what happens to all copies at once. A consumer that is silent for long is
suspended: it may come back with a handshake at any time, in this run of the program or a later
one.
"""

from __future__ import annotations

from typing import assert_never

from dray.errors import DrayError
from dray.machine import Tick
from dray.model.limits import TRANSFER_SILENCE_S
from dray.model.transfer import TransferState
from dray.transfer.copies import ConsumerCopy, ConsumerSaid, CopyState, OfferState
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Cancel,
    Disconnected,
    Heard,
    Keep,
    ProducerEffect,
    ProducerEvent,
    Resume,
    Room,
    SourceBroke,
    SourceChecked,
    Suspend,
    Terms,
)
from dray.transfer.window import Window
from dray.wire.transfer_frames import AnyMessage

_MOVING = (TransferState.SENDING, TransferState.WAITING)
_ENDED = {
    TransferState.DONE: CopyState.DONE,
    TransferState.CANCELLED: CopyState.CANCELLED,
    TransferState.FAILED: CopyState.FAILED,
}


class Producer:
    """One offered file."""

    def __init__(
        self, terms: Terms, discovery: Discovery, *, silence_s: float = TRANSFER_SILENCE_S
    ) -> None:
        """Begin without consumers; `restore` adds those of an earlier run of the program."""
        self.terms = terms
        self.discovery = discovery
        self.copies: dict[str, ConsumerCopy] = {}
        self._offer = OfferState(terms, discovery, silence_s)

    @property
    def error(self) -> DrayError | None:
        """The error with which the offer has failed."""
        return self._offer.error

    @property
    def state(self) -> TransferState:
        """The state of the offer as a whole."""
        if self._offer.ended is not None:
            return self._offer.ended
        states = [copy.state for copy in self.copies.values()]
        # An ended transfer is not held up any more: nobody would ever resume it.
        ended = bool(states) and not self.discovery.open and all(state.final for state in states)
        if self._offer.held and not ended and not any(state in _MOVING for state in states):
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
        """Remember a consumer of an earlier run; one that was not done may come back."""
        stage = _ENDED.get(state, CopyState.SILENT)
        self.copies[key] = self._copy(key, consumer_id, start, stage)
        self.discovery.rejoined()

    def handle(self, event: ProducerEvent, now: float) -> list[ProducerEffect]:
        """Decide about one event."""
        match event:
            case Heard(message):
                return self._heard(message, now)
            case Room(key) | Disconnected(key) | SourceChecked(key):
                copy = self.copies.get(key)
                return [] if copy is None else copy.handle(event, now)
            case Suspend(key):
                self._offer.held = self._offer.held or not key
            case Resume(key):
                self._offer.held = self._offer.held and bool(key)
            case Cancel(key):
                if not key:
                    self._end(TransferState.CANCELLED)
            case SourceBroke(error):
                key = ""
                self._offer.error = error
                self._end(TransferState.FAILED)
            case Tick():
                return self._tick(event, now)
            case _:
                assert_never(event)
        meant = [copy for copy in self.copies.values() if key in ("", copy.key, copy.consumer_id)]
        return [Keep(), *(effect for copy in meant for effect in copy.handle(event, now))]

    def deadline(self) -> float | None:
        """When to send Tick."""
        if self._offer.ended is not None:
            return None
        times = [
            copy.heard_at + self._offer.silence_s
            for copy in self.copies.values()
            if copy.state in _MOVING
        ]
        closes = self.discovery.deadline()
        if closes is not None:
            times.append(closes)
        return min(times, default=None)

    def _heard(self, message: AnyMessage, now: float) -> list[ProducerEffect]:
        copy = self.copies.get(message.key)
        if copy is None:
            copy = self._copy(message.key, str(len(self.copies) + 1), 0, CopyState.NEW)
        copy.heard_at = now
        if not isinstance(message, ConsumerSaid):
            # Frames that only a producer says are not meant for this end.
            return []
        effects = copy.handle(message, now)
        if copy.stage is not CopyState.NEW:
            self.copies[message.key] = copy
        return effects

    def _copy(self, key: str, consumer_id: str, start: int, stage: CopyState) -> ConsumerCopy:
        window = Window(self.terms.window_size, self.terms.fragment_count, start)
        return ConsumerCopy(self._offer, key, consumer_id, window, stage=stage)

    def _end(self, state: TransferState) -> None:
        self.discovery.close()
        self._offer.ended = state

    def _tick(self, event: Tick, now: float) -> list[ProducerEffect]:
        was_open = self.discovery.open
        self.discovery.tick(now)
        closed: list[ProducerEffect] = [Keep()] if was_open and not self.discovery.open else []
        copies = self.copies.values()
        return [*closed, *(effect for copy in copies for effect in copy.handle(event, now))]
