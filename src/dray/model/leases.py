"""Leases of numbers belong to the caller that they were leased to.

A client numbers its messages and transactions out of a lease. By such a number the manager later
tells what became of them, so no other caller may use it. Numbers that are leased to nobody, or to
the manager itself, are nobody's to use: the next caller gets them.

    leased      to a caller, since this start
    forgotten   there were too many: the caller with the most leases has lost its oldest one
    earlier     before this start: nobody may use the number, and everyone who is let in may ask
                what became of it (docs/decisions/0247)
"""

from __future__ import annotations

from dray.model.limits import LEASES_KNOWN_MAX, NUMBERS_LEASED
from dray.model.places import Places


class Leases:
    """The callers of the leases of this start. Volatile."""

    def __init__(self, first: int = 1) -> None:
        """Begin with none; `first` is the first number that this start leases."""
        self._first = lease_of(first)
        self._last = self._first - 1
        self._callers: Places[int] = Places()
        """The leases, by their ordinals, of the callers, by their names."""

    def lease(self, first: int, caller: str) -> None:
        """Note that the lease which begins at a number is a caller's."""
        self._last = lease_of(first)
        self._callers.add(self._last, caller)
        if len(self._callers) > LEASES_KNOWN_MAX:
            # A caller that connects again and again pushes out only its own.
            self._callers.discard(self._callers.oldest_of_most())

    def belongs(self, number: int, caller: str) -> bool:
        """Whether a caller may use a number: it has leased it since this start."""
        return self._callers.place_of(lease_of(number)) == caller

    def is_earlier(self, number: int) -> bool:
        """Whether a number was leased before this start."""
        return number > 0 and lease_of(number) < self._first

    def is_forgotten(self, number: int) -> bool:
        """Whether a number was leased since this start, and nobody may use it any more."""
        ordinal = lease_of(number)
        return self._first <= ordinal <= self._last and ordinal not in self._callers

    def without_forgotten(self, by_ordinal: dict[int, int]) -> dict[int, int]:
        """Leave forgotten leases out of a note of leases."""
        first, callers = self._first, self._callers
        return {at: each for at, each in by_ordinal.items() if at < first or at in callers}


def in_one_lease(first: int, last: int) -> bool:
    """Whether two numbers, and so all between them, are of the same lease."""
    return lease_of(first) == lease_of(last)


def lease_of(number: int) -> int:
    """The ordinal of the lease that a number belongs to."""
    return (number - 1) // NUMBERS_LEASED
