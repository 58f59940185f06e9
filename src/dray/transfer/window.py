"""Credit arithmetic of go-back-N, and nothing else.

         base             next        top
    ------|----------------|-----------|--------------|
    acked | under way      | to be sent again | to be sent first

`next - base` is never more than the size of the window (R112): `peak` keeps the most there was.
"""

from __future__ import annotations


class Window:
    """The fragments under way to one consumer."""

    def __init__(self, size: int, count: int, start: int = 0) -> None:
        """Begin at fragment `start` of `count`; at most `size` may be unacknowledged."""
        assert size >= 1
        self.size = size
        self.count = count
        self.base = self.next = self.top = start
        self.resent = 0
        self.peak = 0

    @property
    def in_flight(self) -> int:
        """Fragments that were sent and are not acknowledged."""
        return self.next - self.base

    @property
    def has_room(self) -> bool:
        """Whether a fragment is left to send and may be sent."""
        return self.next < self.count and self.in_flight < self.size

    def take(self) -> int:
        """Give the number of the fragment to send now."""
        assert self.has_room
        number = self.next
        self.next = number + 1
        self.resent += number < self.top
        self.top = max(self.top, self.next)
        self.peak = max(self.peak, self.in_flight)
        return number

    def acked(self, upto: int) -> bool:
        """Everything before `upto` has arrived; false if that is no news."""
        if not self.base < upto <= self.count:
            return False
        self.base = upto
        self.next = max(self.next, upto)
        self.top = max(self.top, upto)
        return True

    def back_to(self, start: int) -> bool:
        """Send from `start` on; everything before it has arrived. False if that is long over."""
        if not self.base <= start <= self.count:
            return False
        self.acked(start)
        self.next = start
        return True

    def anew(self, start: int) -> None:
        """Begin again at `start`, be it before what was acknowledged. The counters stay."""
        self.base = self.next = start
        self.top = max(self.top, start)
