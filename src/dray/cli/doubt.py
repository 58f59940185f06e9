"""Outcomes of commits and sends whose answer was lost: asked until the manager knows.

The connection or the queue manager failed between the commit and its answer. A client must know
whether the commit happened before it sends again; `outcome` answers from facts that were durable
before any answer could have been sent. A move or an interrupt leaves the same question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import dray
from dray.cli.settings import Settings
from dray.errors import ConnectionLost, InDoubt, PeerError, TransactionAborted
from dray.model.classes import TransactionStatus

PATIENCE_S = 30.0
"""A queue manager that was killed and is started again answers well within that."""
RETRY_EVERY_S = 0.1
DECIDED = frozenset({TransactionStatus.COMMITTED, TransactionStatus.ABORTED})
Ids = Sequence[str] | None
"""Ids of messages, or None for all."""


def connect_again(connect: Callable[[], dray.Manager], patience_s: float) -> dray.Manager:
    """Reconnect, until `patience_s` has passed; raises the last `ConnectionLost`."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return connect()
        except ConnectionLost:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_EVERY_S)


def was_committed(connect: Callable[[], dray.Manager], doubt: InDoubt, patience_s: float) -> bool:
    """Whether the commit or send in doubt happened; raises `InDoubt` if that cannot be known.

    It cannot be known in time, or the queue manager does not know the transaction: it may have
    forgotten it among the many that have committed since, or have been restored from a backup.
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
    """The error to raise when the outcome could not be learned in time."""
    return InDoubt(
        f"the answer to {transaction_id} was lost, and the queue manager could not say what"
        f" became of it; ask `dray transaction outcome '{transaction_id}'` before you do it again",
        **{**fields, "transaction_id": transaction_id},
    )


def aborted(what: str, doubt: InDoubt, rest: str, **fields: object) -> TransactionAborted:
    """The error to raise for what was not committed; `rest` says where its messages are."""
    why = "was aborted because the connection to the queue manager was lost"
    sentence = f"{what} {doubt.transaction_id} {why}; {rest}"
    return TransactionAborted(sentence, transaction_id=doubt.transaction_id, **fields)


def moved(
    settings: Settings,
    ids: Ids,
    act: Callable[[dray.Manager, Ids], int],
    still_there: Callable[[dray.Manager], Iterable[str]],
    *,
    note: str,
) -> int:
    """Move or drop messages, through lost connections; return how many.

    A transaction in doubt is asked for first. `still_there` gives the ids that a queue holds, to go
    on with the rest. `note` tells a person who interrupts it where the messages are.
    """
    count, patience_s = 0, 0.0
    while True:
        connected = lost = False
        try:
            with connect_again(settings.connect, patience_s) as manager:
                connected = True
                return count + act(manager, ids)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{note}; the same command goes on with the rest")
            raise
        except InDoubt as doubt:
            count += int(str(doubt.fields["done"]))
            if was_committed(settings.connect, doubt, PATIENCE_S):
                count += int(str(doubt.fields["count"]))
        except ConnectionLost:
            if not connected or ids is None:
                raise
            # Between two transactions: those that are gone were in the ones before.
            lost = True
        patience_s = PATIENCE_S
        if ids is None:
            continue
        with connect_again(settings.connect, PATIENCE_S) as manager:
            left = set(still_there(manager))
        rest = [each for each in ids if each in left]
        count += len(ids) - len(rest) if lost else 0
        ids = rest
        if not ids:
            return count


@contextmanager
def on_interrupt(note: Callable[[], str]) -> Iterator[None]:
    """Add the sentence of `note` to an interrupt of this block."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(note())
        raise


def outcome_of_send(transaction: dray.Transaction, queue: str) -> str:
    """One sentence: whether the messages of a transaction were sent."""
    match transaction.status:
        case TransactionStatus.COMMITTED:
            return f"everything was sent to {queue}"
        case TransactionStatus.IN_DOUBT:
            return (
                f"it is not known whether everything or nothing was sent to {queue}; ask `dray"
                f" transaction outcome '{transaction.id}'`"
            )
    return f"nothing was sent to {queue}"
