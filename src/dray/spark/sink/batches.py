"""Requests about batches to a queue manager; docs/explanation/batches.md has the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.connections.threads import run
from dray.spark.managers import patiently
from dray.wire.batch_frames import BatchIs, CommitBatch, DescribeBatch, DropStaged
from dray.wire.frames import Done

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager


class BatchName:
    """A batch of a query, as the queue manager knows it."""

    def __init__(self, query: str, number: int) -> None:
        """Take the name."""
        self.query = query
        self.number = number

    def commit(self, manager: Manager, digest: bytes, staged: list[str]) -> BatchIs:
        """Make what is staged visible, once; waits for a manager that is being restarted.

        Raises `BatchMismatch` if the query has sent the batch with another digest.
        """
        link = manager.transaction().awaited.link

        async def once() -> BatchIs:
            # A restarted manager takes no number of before.
            connection = await link.connection()
            number = await connection.numbers()
            head = CommitBatch(self.query, self.number, digest, number, staged)
            return await connection.ask(head, BatchIs)

        return patiently(lambda: run(once()))

    def outcome(self, manager: Manager) -> BatchIs:
        """Whether it is committed."""
        link = manager.transaction().awaited.link
        head = DescribeBatch(self.query, self.number)
        return patiently(lambda: run(link.ask(head, BatchIs)))

    def drop(self, manager: Manager, staged: list[str]) -> None:
        """Drop what is staged; what is gone already is no matter."""
        link = manager.transaction().awaited.link
        run(link.ask(DropStaged(self.query, self.number, staged), Done))
