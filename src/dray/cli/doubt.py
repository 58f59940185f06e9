"""What became of a commit or send whose answer was lost (S2-3): asked until the manager knows.

The connection went, or the queue manager did, between the commit and its answer. Nothing may be
sent again before it is known whether the commit happened; `outcome` says so, from facts that were
durable before any answer could have been given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dray.errors import ConnectionLost, InDoubt, PeerError
from dray.model.classes import TransactionStatus

if TYPE_CHECKING:
    from dray.client.manager import Manager

PATIENCE_S = 30.0
"""A queue manager that was killed and is started again answers well within that."""
RETRY_EVERY_S = 0.1
DECIDED = frozenset({TransactionStatus.COMMITTED, TransactionStatus.ABORTED})


def connect_again(connect: Callable[[], Manager], patience_s: float) -> Manager:
    """A new connection, tried until `patience_s` has passed; raises the last `ConnectionLost`."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return connect()
        except ConnectionLost:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_EVERY_S)


def was_committed(connect: Callable[[], Manager], doubt: InDoubt, patience_s: float) -> bool:
    """Whether what is in doubt happened; raises `InDoubt` if nobody can say in time.

    Nor can a queue manager to which the transaction is unknown: it may have forgotten it, among
    very many that have committed since, or have been restored from a backup.
    """
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            with connect_again(connect, deadline - time.monotonic()) as manager:
                status = manager.outcome(doubt.transaction_id)
        except PeerError:
            status = None
        if status is TransactionStatus.UNKNOWN:
            break
        if status in DECIDED:
            return status is TransactionStatus.COMMITTED
        time.sleep(RETRY_EVERY_S)
    raise nobody_said(doubt.transaction_id, doubt.fields) from doubt


def nobody_said(transaction_id: str, fields: Mapping[str, object]) -> InDoubt:
    """What to raise when nobody could say in time what became of something in doubt."""
    return InDoubt(
        f"the answer to {transaction_id} was lost, and the queue manager could not say what"
        f" became of it; ask `dray transaction outcome '{transaction_id}'` before you do it again",
        **{**fields, "transaction_id": transaction_id},
    )
