"""Transactions that were called aborted and must stay so: their later frames are refused.

Their frames may be on their way over a connection that their client has given up. Nothing here is
durable, for a crash ends every such connection.

The latest are remembered each by itself, with the reason; the earlier ones by the highest number of
each leased range: a client uses its range upwards, so it begins later
transactions above. Below that nothing begins any more. So something may be refused that was never
called aborted, and nothing that was can happen. No transaction of a forgotten lease begins.
In the same way there is one bound for all ranges of earlier starts that are too many. No caller can
raise it above the leases of others: those of this start are fewer than the ranges.
"""

from __future__ import annotations

from typing import Final

from dray.model.leases import Leases, lease_of
from dray.model.limits import TRANSACTIONS_REMEMBERED

REPORTED: Final = "the transaction was already reported as aborted; nothing of it is kept"
_PERHAPS: Final = (
    "the transaction may already have been reported as aborted, so nothing of it is kept; connect"
    " again and do it again"
)


class AbortedTransactions:
    """All of them."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._reasons: dict[int, str] = {}
        self._highest: dict[int, int] = {}
        """By range, the highest of those that are not remembered by themselves."""
        self._all_below = 0

    def __bool__(self) -> bool:
        """Whether there may be a transaction that is refused."""
        return bool(self._reasons or self._highest)

    def add(self, number: int, why: str = REPORTED) -> None:
        """A transaction was called aborted; `why` is what its next use is told."""
        self._reasons[number] = why
        if len(self._reasons) <= TRANSACTIONS_REMEMBERED:
            return
        oldest = next(iter(self._reasons))
        del self._reasons[oldest]
        leased = lease_of(oldest)
        self._highest[leased] = max(oldest, self._highest.get(leased, oldest))
        if len(self._highest) > TRANSACTIONS_REMEMBERED:
            self._highest = self._leases.without_forgotten(self._highest)
        if len(self._highest) > TRANSACTIONS_REMEMBERED:
            self._all_below = max(self._all_below, self._highest.pop(min(self._highest)))

    def reason(self, number: int) -> str | None:
        """Why a transaction that has not begun may not begin; None if it may."""
        why = self._reasons.get(number)
        if why is None and self._leases.is_forgotten(number):
            return _PERHAPS
        if why is None and number <= max(self._all_below, self._highest.get(lease_of(number), 0)):
            why = _PERHAPS
        return why
