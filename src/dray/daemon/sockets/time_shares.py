"""The time for frames of one caller in a round of the loop, before all others come.

    in a round, a caller or destination has had    its next frames
    less than its share                            are decided
    its share                                      wait for the next round

A round ends when the loop has done everything that was ready. One event more than the share may be
decided, so a caller that asks for costly things holds up others no longer than by one of them.

Time in which other programs had the processor is not the caller's. A busy machine would otherwise
cut a round after each transaction of some callers, and each would have a sync of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.daemon.limits import CALLER_S, DELAYED_S_MIN


class TimeShares:
    """The time of one loop, by callers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delayed_s: Callable[[], float]) -> None:
        """Begin with nothing spent.

        `delayed_s` says how long this thread was ready and had no processor, since some time ago.
        """
        self._loop = loop
        self._delayed_s = delayed_s
        self._since = 0.0
        self._spent: dict[str, float] = {}

    def begin(self) -> None:
        """Frames of one caller are decided next: a delay of the thread until now is not theirs."""
        self._since = self._delayed_s()

    def is_spent(self, place: str) -> bool:
        """Whether a caller has had its share of this round."""
        return self._spent.get(place, 0.0) >= CALLER_S

    def spend(self, place: str, seconds: float) -> None:
        """Note how long a frame of a caller took, behind `begin` or another frame of it."""
        if not self._spent:
            self._loop.call_soon(self._spent.clear)
        if seconds >= DELAYED_S_MIN:
            delayed_s = self._delayed_s()
            seconds = max(0.0, seconds - (delayed_s - self._since))
            self._since = delayed_s
        self._spent[place] = self._spent.get(place, 0.0) + seconds
