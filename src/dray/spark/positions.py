"""Up to where a queue may be settled: arithmetic over the positions that are durably landed.

`settle(upto=...)` takes everything at or below a position, so it may only be told a position below
which nothing is left to land. Large messages of two sources lie interleaved in a queue; landing the
first says nothing of what lies between its parts. `LandingProgress` therefore keeps the exact
ranges that were landed, and moves `upto` over those that touch it. Where there is a gap, it asks
whether anything lies in it: a gap is empty where parts were lost or received by others, and stays
empty, because positions only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Range = tuple[int, int]
"""First and last position, both included."""


class LandingProgress(NamedTuple):
    """`upto`: all at or below is landed. `beyond`: ranges above that are landed too, in order."""

    upto: int = 0
    beyond: tuple[Range, ...] = ()

    def has(self, position: int) -> bool:
        """Whether the message at a position is landed."""
        return position <= self.upto or is_within(self.beyond, position)

    def noting(self, ranges: Iterable[Range]) -> LandingProgress:
        """The same, with more ranges landed; those of the next message cost least."""
        more, before = join_ranges(ranges), self.beyond
        if not more or not before or more[0] < before[-1]:
            return LandingProgress(self.upto, tuple(join_ranges([*before, *more])))
        return LandingProgress(self.upto, (*before[:-1], *join_ranges([before[-1], *more])))

    def advanced(self, first_after: Callable[[int], int | None]) -> LandingProgress:
        """The same, with `upto` as high as it may be.

        `first_after(position)` gives the first position over `position` that has a message, or
        None.
        """
        waiting = list(self.beyond)
        upto = self.upto
        while waiting:
            first, last = waiting[0]
            if first > upto + 1:
                found = first_after(upto)
                if found is not None and found < first:
                    break
            upto = max(upto, last)
            waiting.pop(0)
        return LandingProgress(upto, tuple(waiting))


def is_within(ranges: Iterable[Range], position: int) -> bool:
    """Whether a position is in one of the ranges."""
    return any(first <= position <= last for first, last in ranges)


def join_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Sort ranges and join those that overlap or touch."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def ranges_of(positions: Iterable[int]) -> list[Range]:
    """The fewest ranges that hold exactly these positions."""
    return join_ranges((position, position) for position in positions)
