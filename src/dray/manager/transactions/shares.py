"""The open transactions of each caller together: a caller has a share of all that there may be.

    held      a transaction is open on a session of the caller
    released  it was committed, aborted, prepared or staged, or an upload has lost its connection

Only all that there may be bounds the owner. A transaction that is prepared or staged counts in
another share (`prepared.py`), and an upload without a connection in a third (`uploads.py`).
"""

from __future__ import annotations

from dray.errors import Misuse
from dray.manager.transactions.open_transaction import OpenTransaction, TransactionShare
from dray.model.callers import Caller
from dray.model.limits import OPEN_TRANSACTIONS_MAX


class TransactionShares:
    """The shares of all callers that have open transactions."""

    def __init__(self) -> None:
        """Begin with none."""
        self._of: dict[str, TransactionShare] = {}
        self._count = 0

    def hold(self, transaction: OpenTransaction, caller: Caller) -> None:
        """Count a transaction that is opened on a session; `Misuse` beyond its caller's share."""
        if self._count >= OPEN_TRANSACTIONS_MAX:
            raise Misuse(
                f"{OPEN_TRANSACTIONS_MAX} transactions are open here, which is the most; commit or"
                " abort some of them first"
            )
        share = self._of.get(caller.place)
        if share is None:
            share = self._of[caller.place] = TransactionShare(caller)
        share.check_transactions()
        self._count += 1
        share.transactions += 1
        share.messages += transaction.operations
        transaction.share = share

    def release(self, transaction: OpenTransaction) -> None:
        """Count a transaction no more: it is open on no session any longer."""
        share, transaction.share = transaction.share, None
        if share is None:
            return
        self._count -= 1
        share.transactions -= 1
        share.messages -= transaction.operations
        if not share.transactions:
            del self._of[share.place]
