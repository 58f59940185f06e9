"""The bytes of messages that one frame holds: about what the line carries in a tenth of a second.

The messages of one frame become visible together, when all of it has come. On a slow line, or one
that stalls, a long frame would hold all of them back. Short frames cost time at both ends, so a
fast line gets long ones. Order acks tell how fast the line is.

    new connection, resend       the least
    order ack, within LINE_S     at least what was acknowledged since the period began
    order ack, after LINE_S      what was acknowledged, for each LINE_S; a new period begins

A period also begins when something is sent and nothing was in flight.
"""

from __future__ import annotations

from dray.model.limits import FRAME_LINE_S


class FrameSize:
    """The bound for one stream's next frames. A single longer message has a frame of its own."""

    __slots__ = ("_acknowledged", "_least", "_most", "_since", "bytes")

    def __init__(self, least: int, most: int) -> None:
        """Stay between two sizes in bytes."""
        self._least, self._most = min(least, most), most
        self._since, self._acknowledged = 0.0, 0
        self.bytes = self._least

    def begin(self) -> None:
        """Nothing is known of the line: it is new, or carries nothing any more."""
        self.bytes = self._least

    def sending(self, now: float) -> None:
        """Something is sent, and nothing was in flight."""
        self._since, self._acknowledged = now, 0

    def acknowledged(self, size: int, now: float) -> None:
        """Take an order ack for so many bytes."""
        self._acknowledged += size
        seconds = now - self._since
        if 0 <= seconds < FRAME_LINE_S:
            self.bytes = min(max(self.bytes, self._acknowledged), self._most)
            return
        if seconds >= FRAME_LINE_S:
            carried = int(self._acknowledged * FRAME_LINE_S / seconds)
            self.bytes = min(max(self._least, carried), self._most)
        self.sending(now)
