"""Progress of something long: told at most ten times a second, and once at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[int, int | None], object]
"""Called with the bytes done and the bytes in all (None while that is not known)."""
INTERVAL_S = 0.1


class Reporter:
    """Counts bytes and tells them, not too often."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        """Report to `progress`, if there is one."""
        self._progress = progress
        self._total = total
        self._done = 0
        self._next = 0.0

    def advance(self, count: int) -> None:
        """Count bytes, and tell if it is time."""
        self._done += count
        if self._progress is not None and (now := time.monotonic()) >= self._next:
            self._next = now + INTERVAL_S
            self._progress(self._done, self._total)

    def finish(self) -> None:
        """Tell the end; now the total is known."""
        if self._progress is not None:
            self._progress(self._done, self._done)
