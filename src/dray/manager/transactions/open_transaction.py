"""One transaction: its gathered operations, until its commit or abort; and a caller's share."""

from __future__ import annotations

from dray.errors import DrayError, Misuse, TransactionAborted
from dray.large.join import SequenceKey
from dray.manager.context import Context
from dray.manager.disk import Promise
from dray.manager.entries import Staged
from dray.manager.session import Session
from dray.model.callers import Caller
from dray.model.ids import TransactionId
from dray.model.limits import (
    OPEN_TRANSACTIONS_MAX,
    OPEN_TRANSACTIONS_SHARE,
    TRANSACTION_OPERATIONS_MAX,
)
from dray.model.words import counted


class TransactionShare:
    """The open transactions of one caller: how many, and how many messages they have together."""

    def __init__(self, caller: Caller) -> None:
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
                f"{self.place} has {counted(self.transactions, 'open transaction')} with"
                f" {counted(self.messages)} here; a caller has at most {most}, and"
                f" {TRANSACTION_OPERATIONS_MAX} messages in them. Commit or abort some of them"
                " first"
            )

    def check_messages(self, transaction_id: TransactionId) -> None:
        """Raise `TransactionAborted` if the messages are more than the caller may have."""
        if self.bounded and self.messages > TRANSACTION_OPERATIONS_MAX:
            raise TransactionAborted(
                f"the open transactions of {self.place} have {TRANSACTION_OPERATIONS_MAX} messages,"
                " which is the most; nothing of this one is kept: commit others, then do it again",
                transaction_id=transaction_id,
            )


class OpenTransaction:
    """The gathered operations of a transaction."""

    def __init__(self, number: int, session: Session | None) -> None:
        """Begin empty; without a session once it is prepared."""
        self.number = number
        self.used_at = 0.0
        self.session = session
        self.sends: dict[int, list[Staged]] = {}
        self.receives: dict[int, list[int]] = {}
        self.large: dict[int, list[SequenceKey]] = {}
        self.singles: dict[int, list[int]] = {}
        """Receives that were not taken as large messages."""
        self.moves: dict[tuple[int, int], list[int]] = {}
        """Positions by the queues they move from and to."""
        self.rejected: set[tuple[int, int]] = set()
        """Queue and position of what was received and marked as rejected."""
        self.plain_to: set[int] = set()
        """Queues to which it has sent plain messages that must not mix with large ones."""
        self.large_to: set[int] = set()
        """Queues to which it sends large messages."""
        self.reserved: dict[int, Promise] = {}
        """Bytes that large messages have reserved and not yet used, by queue."""
        self.reserver = ""
        """The caller that has reserved them."""
        self.drawn_at = 0.0
        """When any of them were used last."""
        self.share: TransactionShare | None = None
        """The share of its caller, in which it counts while it is open on a session."""
        self.claim = False
        """Whether it is a receive outside of transactions that its receiver has yet to confirm."""
        self.upload = False
        """Whether it keeps what is marked in it (`uploads.py`)."""
        self.marked = 0
        """The number of an upload's sends that are durable."""
        self.send_frames = 0
        self.operations = 0
        self.fact_bytes = 0
        """Bytes of the log that its commit will take, at the most."""
        self.doomed: DrayError | None = None

    def note_operations(self, context: Context, count: int, fact_bytes: int) -> None:
        """Count messages, and the bytes that a fact will take of them (`costs.py`).

        Raises `TransactionAborted` if they would not fit one fact of the log, or are more than the
        share of the caller.
        """
        self.gathered(count)
        self.fact_bytes += fact_bytes
        most = context.room.fact_bytes_max
        if self.operations > TRANSACTION_OPERATIONS_MAX or self.fact_bytes > most:
            raise TransactionAborted(
                f"a transaction may be of {TRANSACTION_OPERATIONS_MAX} messages, and what the log"
                f" has to keep of them may take {most} bytes here; commit more often",
                transaction_id=context.state.transaction_id(self.number),
            )
        if self.share is not None:
            self.share.check_messages(context.state.transaction_id(self.number))

    def gathered(self, count: int) -> None:
        """Count messages, also for its caller."""
        self.operations += count
        if self.share is not None:
            self.share.messages += count


class TransactionShares:
    """The shares of all callers that have open transactions, out of all that there may be.

        held      a transaction is open on a session of the caller
        released  it was committed, aborted, prepared or staged, or an upload lost its connection

    Only all that there may be bounds the owner. A transaction that is prepared or staged counts in
    another share (`prepared.py`), and an upload without a connection in a third (`uploads.py`).
    """

    def __init__(self) -> None:
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
