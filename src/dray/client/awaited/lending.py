"""Sends fragments by lending the file that they are in, where the socket can carry a descriptor.

The sender reads each fragment all the same, for its digest and the record's CRC32C, and sends only
the record's head. The queue manager reads the body from the file into memory of its own, and takes
it only if it fits that CRC32C: what is placed is what the sender read, or the send fails.
"""

from __future__ import annotations

from collections import deque

from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import Record
from dray.client.connections.connection import Connection
from dray.client.connections.session import Pending
from dray.client.files.sources import AwaitedChunkSource, FileSource, Source
from dray.errors import SourceChanged, SourceUnreadable
from dray.model.limits import KIB

_LENT_BYTES_MIN = 256 * KIB
"""Less goes through the socket in the time that lending takes."""
_AHEAD = 3
"""Fragments that the queue manager has not answered for: one that it places, one that it reads, and
one on its way."""


class Lender:
    """Lends one file, fragment by fragment, in a transaction."""

    def __init__(
        self, transaction: Transaction, connection: Connection, source: FileSource
    ) -> None:
        """Begin at the beginning of the file."""
        self._transaction = transaction
        self._connection = connection
        self._source = source
        self._waiting: deque[Pending] = deque()

    async def send(self, queue: int, record: Record, offset: int) -> None:
        """Send a record whose body lies at `offset`; its answer is waited for later.

        Raises `SourceChanged`, `SourceUnreadable`, and what else the queue manager refuses.
        """
        if len(record.body) < _LENT_BYTES_MIN:
            await self._transaction.send_large(queue, record)
            return
        while len(self._waiting) >= _AHEAD:
            await self._answered()
        descriptor = self._source.descriptor
        self._waiting.append(await self._transaction.send_lent(queue, record, descriptor, offset))

    async def settle(self) -> None:
        """Wait until everything is placed. Raises as `send` does."""
        while self._waiting:
            await self._answered()

    async def _answered(self) -> None:
        try:
            await self._connection.wait(self._waiting.popleft())
        except SourceChanged as error:
            raise self._source.changed() from error
        except SourceUnreadable as error:
            raise self._source.not_read() from error


def lender_of(
    source: Source | AwaitedChunkSource, transaction: Transaction, connection: Connection
) -> Lender | None:
    """Give what can lend a source over a connection, or None if it has to go through the socket."""
    if connection.takes_files and isinstance(source, FileSource) and source.is_regular:
        return Lender(transaction, connection, source)
    return None
