"""Which transactions have committed: what `Manager.outcome` can vouch for (S2-3).

A bounded number is remembered, the oldest commit is forgotten first. A forgotten transaction must
never be called aborted, for a client would do it again. Numbers are leased in ranges and a client
uses its range upwards, so of each range the highest forgotten number is kept: up to it nothing is
certain any more, above it whatever is not remembered did not commit. After a restore the same holds
for every number that was leased before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.model.limits import NUMBERS_LEASED, TRANSACTIONS_REMEMBERED


class Outcomes:
    """The committed transactions, in the order of their commits."""

    def __init__(
        self,
        committed: Iterable[int] = (),
        forgotten: Iterable[tuple[int, int]] = (),
        certain_from: int = 0,
    ) -> None:
        """Begin with what a checkpoint knew."""
        self.certain_from = certain_from
        """Numbers below this may have committed in a life that a restore has undone."""
        self._committed = dict.fromkeys(committed)
        self._forgotten = dict(forgotten)

    def __contains__(self, number: int) -> bool:
        """Whether a transaction is among the remembered ones."""
        return number in self._committed

    def add(self, number: int) -> None:
        """A transaction committed."""
        self._committed[number] = None
        if len(self._committed) > TRANSACTIONS_REMEMBERED:
            self._forget(next(iter(self._committed)))

    def may_have_forgotten(self, number: int) -> bool:
        """Whether a transaction that is not remembered may have committed all the same."""
        if number < self.certain_from:
            return True
        leased = _range_of(number)
        if number <= self._forgotten.get(leased, 0):
            return True
        full = len(self._forgotten) >= TRANSACTIONS_REMEMBERED
        return full and leased < min(self._forgotten)

    def committed(self) -> list[int]:
        """The remembered ones, for a checkpoint."""
        return list(self._committed)

    def forgotten(self) -> list[tuple[int, int]]:
        """The forgotten numbers, range by range, for a checkpoint."""
        return list(self._forgotten.items())

    def _forget(self, number: int) -> None:
        del self._committed[number]
        leased = _range_of(number)
        self._forgotten[leased] = max(number, self._forgotten.get(leased, 0))
        if len(self._forgotten) > TRANSACTIONS_REMEMBERED:
            # Ranges are leased upwards: of the lowest one nobody is left to ask.
            del self._forgotten[min(self._forgotten)]


def _range_of(number: int) -> int:
    return (number - 1) // NUMBERS_LEASED
