"""Notes for the last line of a command that Ctrl-C ended: they say which part was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dray.model.classes import TransactionStatus

if TYPE_CHECKING:
    from dray.client.blocking.transaction import Transaction


@contextmanager
def on_interrupt(note: Callable[[], str]) -> Iterator[None]:
    """Add the sentence of `note` to an interrupt of this block."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(note())
        raise


def outcome_of_send(transaction: Transaction, queue: str) -> str:
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
