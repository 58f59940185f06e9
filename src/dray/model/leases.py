"""Leases of numbers belong to the caller that they were leased to.

A client numbers its messages and transactions out of a lease. By such a number the manager later
tells what became of them, so no other caller may use it. Leases of earlier starts are not known any
more: their numbers may be asked about by everyone who is let in.
"""

from __future__ import annotations

from dray.model.limits import LEASES_KNOWN_MAX, NUMBERS_LEASED


class Leases:
    """The callers of the leases of this start, the newest of them. Volatile."""

    def __init__(self) -> None:
        """Begin with none."""
        self._callers: dict[int, str] = {}
        """Names, by the ordinal of the lease."""

    def lease(self, first: int, caller: str) -> None:
        """Note that the lease which begins at a number is a caller's."""
        self._callers[_ordinal(first)] = caller
        if len(self._callers) > LEASES_KNOWN_MAX:
            del self._callers[next(iter(self._callers))]

    def belongs(self, number: int, caller: str) -> bool:
        """Whether no other caller has leased a number."""
        return self._callers.get(_ordinal(number), caller) == caller


def in_one_lease(first: int, last: int) -> bool:
    """Whether two numbers, and so all between them, are of the same lease."""
    return _ordinal(first) == _ordinal(last)


def _ordinal(number: int) -> int:
    return (number - 1) // NUMBERS_LEASED
