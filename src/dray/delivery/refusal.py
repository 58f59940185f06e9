"""Why a destination refuses a stream or some of its messages, and since when.

StreamRefused                   noted, until the stream is open again
messages refused                noted, until an order ack of which no message was refused
"""

from __future__ import annotations

from dray.model.queue import Refusal


class RefusalNote:
    """The refusal of one stream. Volatile: a new connection asks again."""

    def __init__(self) -> None:
        self.current: Refusal | None = None
        self.in_vain = False
        """Whether the peer is not asked again before there is something to send, or it says so."""
        self._lately = False
        self._closed = self._told_closed = False

    def news(self) -> bool | None:
        """Whether the peer refuses the stream, once after each change; None if nothing changed."""
        if self._closed is self._told_closed:
            return None
        self._told_closed = self._closed
        return self._closed

    def stream_refused(self, code: str, sentence: str, now: float, *, final: bool = False) -> None:
        """The peer does not take the stream; if that is final, what waits is not kept for later."""
        self.in_vain = final
        self._closed = True
        self._note(code, sentence, 0, now)

    def waiting_refused(self, count: int) -> None:
        """By that, so many messages that waited are refused."""
        if self.current is not None:
            self._note(self.current.code, self.current.sentence, count, 0.0)

    def messages_refused(self, code: str, sentence: str, count: int, now: float) -> None:
        """The peer has the stream open, or had, and took some of its messages for refused."""
        self._note(code, sentence, count, now)
        self._lately = True

    def opened(self) -> None:
        """The peer takes the stream."""
        self.in_vain = self._closed = False
        if not self._lately:
            self.current = None

    def acknowledged(self) -> None:
        """An order ack came, and before it all word of messages that did not enter."""
        self.opened()
        self._lately = False

    def _note(self, code: str, sentence: str, count: int, now: float) -> None:
        before = self.current
        if before is not None and before.code == code:
            self.current = Refusal(code, sentence, before.since, before.count + count)
        else:
            self.current = Refusal(code, sentence, now, count)
