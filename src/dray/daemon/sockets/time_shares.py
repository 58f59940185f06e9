"""How long the frames of one caller are decided in a round of the loop, before all others come.

    in a round, a caller or destination has had    its next frames
    less than its share                            are decided
    its share                                      wait for the next round

A round ends when the loop has done everything that was ready. One event more than the share may be
decided, so a caller that asks for costly things holds up others no longer than by one of them.
"""

from __future__ import annotations

import asyncio

from dray.daemon.limits import CALLER_S


class TimeShares:
    """The time of one loop, by callers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with nothing spent."""
        self._loop = loop
        self._spent: dict[str, float] = {}

    def is_spent(self, place: str) -> bool:
        """Whether a caller has had its share of this round."""
        return self._spent.get(place, 0.0) >= CALLER_S

    def spend(self, place: str, seconds: float) -> None:
        """Note how long a frame of a caller took."""
        if not self._spent:
            self._loop.call_soon(self._spent.clear)
        self._spent[place] = self._spent.get(place, 0.0) + seconds
