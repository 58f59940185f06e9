"""The flight of a stream: messages sent on one connection that the peer has not acknowledged.

The window bounds it. A message larger than the window travels alone.
"""

from __future__ import annotations

from collections import deque

from dray.delivery.events import Backlog, DeliverySettings
from dray.model.limits import WINDOW_FRAMES_MIN


class Flight:
    """Lookup ids and lengths in the order of sending."""

    __slots__ = ("_settings", "bytes", "messages")

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self.messages: deque[tuple[int, int]] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        """The number of messages in flight."""
        return len(self.messages)

    @property
    def first(self) -> int:
        """Lookup id of the first; something is in flight."""
        return self.messages[0][0]

    @property
    def last(self) -> int:
        """Lookup id of the last; 0 if nothing is in flight."""
        return self.messages[-1][0] if self.messages else 0

    def acknowledged(self, upto: int) -> int:
        """Take out the messages up to a lookup id; gives how many bytes they have."""
        before = self.bytes
        while self.messages and self.messages[0][0] <= upto:
            self.bytes -= self.messages.popleft()[1]
        return before - self.bytes

    def forget(self) -> None:
        """Nothing is in flight any more: what was sent is sent again."""
        self.messages.clear()
        self.bytes = 0

    def fill(
        self, backlog: Backlog, after: int, frame_bytes: int, *, one_frame: bool
    ) -> tuple[list[list[int]], bool]:
        """Take what the window has room for from the backlog, behind a lookup id.

        Gives the messages by frames, in as few as their bounds allow, and whether the window or
        `one_frame` left some of the backlog behind.
        """
        settings, flight = self._settings, self.messages
        messages_left = settings.window_messages - len(flight)
        bytes_left = settings.window_bytes - self.bytes
        frames: list[list[int]] = []
        frame: list[int] = []
        frame_left = frame_bytes
        # Each frame has an ack of its own: a window that is full would for ever refill by as little
        # as the shortest frame of its beginning.
        worth_a_frame = min(frame_left, settings.window_bytes // WINDOW_FRAMES_MIN)
        more = True
        for each in backlog.after(after):
            lookup_id, length = each
            if flight and (messages_left <= 0 or length > bytes_left):
                break
            if frame and (length > frame_left or len(frame) >= settings.frame_messages):
                if one_frame:
                    break
                frames.append(frame)
                frame, frame_left = [], frame_bytes
            if flight and not frame and bytes_left < worth_a_frame:
                break
            frame.append(lookup_id)
            frame_left -= length
            flight.append(each)
            messages_left -= 1
            bytes_left -= length
        else:
            more = False
        if frame:
            frames.append(frame)
        self.bytes = settings.window_bytes - bytes_left
        return frames, more
