"""How fast things move: rates from the last looks at how many bytes of each are done."""

from __future__ import annotations

from collections import deque
from typing import Final

_WINDOW_S: Final = 15.0
"""Looks that a rate is made of: long enough for a calm figure, short enough to see a stop."""
_SPAN_S: Final = 0.2
"""Two looks that are closer tell no rate."""
_FORGOTTEN_S: Final = 60.0


class Paces:
    """The last looks, by thing."""

    def __init__(self) -> None:
        """Begin without a look."""
        self._looks: dict[str, deque[tuple[float, int]]] = {}

    def rate(self, thing: str, done: int, now: float) -> float:
        """Take in that so many bytes of a thing are done; the bytes a second lately."""
        looks = self._looks.setdefault(thing, deque())
        looks.append((now, done))
        while now - looks[0][0] > _WINDOW_S:
            looks.popleft()
        self._forget(now)
        began, before = looks[0]
        return max(0.0, (done - before) / (now - began)) if now - began > _SPAN_S else 0.0

    async def close(self) -> None:
        """Nothing is open."""

    def _forget(self, now: float) -> None:
        gone = [each for each, looks in self._looks.items() if now - looks[-1][0] > _FORGOTTEN_S]
        for each in gone:
            del self._looks[each]
