"""Notes for the last line of a command that Ctrl-C ended: they say which part was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dray.model.classes import TransactionStatus

if TYPE_CHECKING:
    from dray.client.blocking.transaction import Transaction


@contextmanager
def telling(note: Callable[[], str]) -> Iterator[None]:
    """A block whose interrupt is told with what `note` says then."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(note())
        raise


def fate_of_send(transaction: Transaction, queue: str) -> str:
    """The fate of the messages that a transaction was to send."""
    match transaction.status:
        case TransactionStatus.COMMITTED:
            return f"everything was sent to {queue}"
        case TransactionStatus.IN_DOUBT:
            return (
                f"it is not known whether everything or nothing was sent to {queue}; ask `dray"
                f" transaction outcome '{transaction.id}'`"
            )
    return f"nothing was sent to {queue}"
