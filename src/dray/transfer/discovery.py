"""The consumers that may join an offer, and the time for which it is open (S1-1, S1-2, R110, R111).

To one: the first handshake closes it. To many: it stays open for the whole of `request_timeout`, or
without one until the offer is cancelled. A consumer that joined before may always come back.
"""

from __future__ import annotations

from dray.model.limits import TRANSFER_CONSUMERS_MAX


class Discovery:
    """The time in which consumers may join."""

    def __init__(self, *, many: bool, until: float | None) -> None:
        """Be open until a time (None: for ever), or if not `many` until one has joined."""
        self.many = many
        self.until = until
        self.joined = 0
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether another consumer may join."""
        return not self._closed and (self.many or not self.joined)

    def deadline(self) -> float | None:
        """When it closes if nobody joins."""
        return self.until if self.open else None

    def rejoined(self) -> None:
        """Count one who had joined in an earlier run of the program."""
        self.joined += 1

    def ask(self, now: float) -> str:
        """Admit one more consumer, or give the sentence that refuses it."""
        sentence = self.refusal(now)
        self.joined += not sentence
        return sentence

    def refusal(self, now: float) -> str:
        """The sentence that refuses one more consumer, if it is refused."""
        self.tick(now)
        if not self.many and self.joined:
            return "the file is offered to one consumer, and another one has it"
        if self._closed:
            return "the time in which consumers may join is over"
        if self.joined >= TRANSFER_CONSUMERS_MAX:
            return f"the file has {TRANSFER_CONSUMERS_MAX} consumers, which is the most"
        return ""

    def tick(self, now: float) -> None:
        """Close when the time is over."""
        if self.until is not None and now >= self.until:
            self._closed = True

    def close(self) -> None:
        """Let nobody join any more."""
        self._closed = True
