"""When to dial a peer again: soon at first, then ever more seldom, at once forgiven by a success.

The original retries every 5 seconds (semantics 2.5). Here that is the ceiling: the first wait is a
fifth of a second and each further one twice as long, so a peer that only restarted is found quickly
and one that is gone costs little. The caller draws the jitter, as cores draw nothing.
"""

from __future__ import annotations

FIRST_DELAY_S = 0.2
_DOUBLINGS_MAX = 32


class Backoff:
    """The waiting time before each further attempt."""

    def __init__(self, ceiling_s: float) -> None:
        """Begin without a failure; no wait is longer than `ceiling_s`."""
        self._ceiling_s = ceiling_s
        self.failures = 0

    def failed(self, now: float, jitter: float = 1.0) -> float:
        """Take note of a failure; give when to try again. `jitter`, at most 1, scales it."""
        doublings = min(self.failures, _DOUBLINGS_MAX)
        self.failures += 1
        return now + min(self._ceiling_s, FIRST_DELAY_S * (1 << doublings)) * min(jitter, 1.0)

    def succeeded(self) -> None:
        """A connection was made and welcomed: the next failure waits the shortest time again."""
        self.failures = 0
