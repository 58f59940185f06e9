"""The open transactions of each caller together: a caller has a share of all that there may be.

    held      a transaction is open on a session of the caller
    released  it was committed, aborted, prepared or staged, or an upload has lost its connection

Only all that there may be bounds the owner. A transaction that is prepared or staged counts in
another share (`prepared.py`), and an upload without a connection in a third (`uploads.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.errors import Misuse, TransactionAborted
from dray.model.limits import (
    OPEN_TRANSACTIONS_MAX,
    OPEN_TRANSACTIONS_SHARE,
    TRANSACTION_OPERATIONS_MAX,
)

if TYPE_CHECKING:
    from dray.manager.transactions.open_transaction import OpenTransaction
    from dray.model.callers import Caller
    from dray.model.ids import TransactionId


class TransactionShare:
    """The open transactions of one caller: how many, and how many messages they have together."""

    def __init__(self, caller: Caller) -> None:
        """Begin with none."""
        self.place = caller.place
        self.bounded = not caller.owner
        self.transactions = 0
        self.messages = 0

    def check_transactions(self) -> None:
        """Raise `Misuse` if the caller may open no other transaction."""
        most = OPEN_TRANSACTIONS_MAX // OPEN_TRANSACTIONS_SHARE
        if not self.bounded:
            return
        if self.transactions >= most or self.messages >= TRANSACTION_OPERATIONS_MAX:
            raise Misuse(
                f"{self.place} has {self.transactions} open transactions with {self.messages}"
                f" messages here; a caller has at most {most}, and {TRANSACTION_OPERATIONS_MAX}"
                " messages in them. Commit or abort some of them first"
            )

    def check_messages(self, transaction_id: TransactionId) -> None:
        """Raise `TransactionAborted` if the messages are more than the caller may have."""
        if self.bounded and self.messages > TRANSACTION_OPERATIONS_MAX:
            raise TransactionAborted(
                f"the open transactions of {self.place} have {TRANSACTION_OPERATIONS_MAX} messages,"
                " which is the most; nothing of this one is kept: commit others, then do it again",
                transaction_id=transaction_id,
            )


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
