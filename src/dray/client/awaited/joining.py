"""How a call takes part in the transaction that it was given."""

from __future__ import annotations

from typing import Protocol

from dray.client.awaited.transaction import Transaction
from dray.client.connections.connection import Connection
from dray.client.connections.link import QueueHandle
from dray.errors import Misuse, TransactionUsage


class InTransaction(Protocol):
    """A transaction as an argument of a call: blocking or awaited."""

    @property
    def awaited(self) -> Transaction:
        """The awaited transaction behind it."""


def transaction_of(given: InTransaction) -> Transaction:
    """The transaction that was given to a call; raises `Misuse` if it is none."""
    used: object = getattr(given, "awaited", None)
    if not isinstance(used, Transaction):
        raise Misuse(f"`transaction` must come from manager.transaction(), not be {given!r}")
    return used


def connection_in(given: InTransaction, handle: QueueHandle) -> Connection:
    """The connection of a transaction in which a queue is used; raises `TransactionUsage`."""
    used = transaction_of(given)
    if used.link is not handle.link:
        raise TransactionUsage(
            f"the transaction belongs to another connection than {handle.name!r}; begin it on the"
            " manager that gave the queue"
        )
    return used.connection()


async def part_in(
    given: InTransaction | None, handle: QueueHandle
) -> tuple[Connection | None, int]:
    """The connection and the number of a transaction that joins a request; None and 0 without."""
    if given is None:
        return None, 0
    connection_in(given, handle)
    return await given.awaited.join()
