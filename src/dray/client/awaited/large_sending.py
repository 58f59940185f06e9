"""A large message sent in a transaction: header, fragments, trailer, and the digest of all."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import Record, record_of
from dray.client.connections.connection import Connection
from dray.client.connections.runtime import Runtime
from dray.client.connections.session import Pending
from dray.client.files.digest import RollingDigest
from dray.client.files.progress import Progress, Reporter
from dray.client.files.sources import (
    PIECES_ALIVE,
    AwaitedChunkSource,
    FileSource,
    Source,
    pieces_of,
)
from dray.client.files.steps import reached
from dray.errors import DrayError, SourceChanged, SourceUnreadable, TransactionAborted
from dray.large.compression import Compressor
from dray.large.split import SIZE_UNKNOWN, LargeMessageParameters, PartMessage, Split
from dray.model.files import FileProperties
from dray.model.ids import ManagerId, MessageId
from dray.model.limits import KIB
from dray.model.message import Message
from dray.wire.frames import Done
from dray.wire.message_frames import Reserve

_LENT_BYTES_MIN = 256 * KIB
"""Less goes through the socket in the time that lending takes."""
_AHEAD = 3
"""Fragments that the queue manager has not answered for: one that it places, one that it reads, and
one on its way."""


class Fragmentation(NamedTuple):
    """The way in which a large message is cut."""

    parameters: LargeMessageParameters
    fragment_size: int
    digest_kind: str
    compression: str | None = None


class LargeSend(NamedTuple):
    """A large message to send, and how."""

    message: Message
    source: Source | AwaitedChunkSource
    cut: Fragmentation
    progress: Progress | None
    file: FileProperties | None = None


class LargeSending:
    """Sends the parts of one large message in a transaction, one after another."""

    def __init__(
        self,
        runtime: Runtime,
        transaction: Transaction,
        queue: int,
        what: LargeSend,
        *,
        number: int,
    ) -> None:
        """Send nothing yet; `number` is that of the header."""
        connection = transaction.connection()
        self.split = split_of(what, connection.manager_id, number)
        self._runtime = runtime
        self._transaction = transaction
        self._connection = connection
        self._queue = queue
        self._what = what
        self._number = number
        compression = what.cut.compression
        self._compressor = None if compression is None else Compressor(compression)
        self._lender = lender_of(what.source, transaction, connection)

    def digest(self) -> RollingDigest:
        """The digest of the body, to be taken while it is sent."""
        kind = self._what.cut.digest_kind
        return RollingDigest(self._runtime, behind=PIECES_ALIVE - 1, kind=kind)

    def pieces(self) -> AsyncGenerator[memoryview, None]:
        """The body in pieces of the size of a fragment."""
        return pieces_of(self._what.source, self._what.cut.fragment_size, self._runtime)

    async def header(self) -> None:
        """Send the header."""
        part = self.split.header(self._what.source.size)
        await self._transaction.send_large(self._queue, self._record(part, self._number))
        reached("header-sent")

    async def fragment(self, piece: memoryview) -> None:
        """Send the next fragment."""
        offset, packed = self.split.size, None
        if self._compressor is not None:
            packed = await self._runtime.work(len(piece), self._compressor.packed, piece)
        part = self.split.fragment(piece, packed)
        record = self._record(part, await self._connection.numbers())
        # Compressed bytes have to pass through here.
        if self._lender is None or packed is not None:
            await self._transaction.send_large(self._queue, record)
        else:
            await self._lender.send(self._queue, record, offset)
        reached("fragment-sent")

    async def trailer(self, digest: bytes) -> None:
        """Send the trailer, once all fragments are placed."""
        if self._lender is not None:
            await self._lender.settle()
        record = self._record(self.split.trailer(digest), await self._connection.numbers())
        await self._transaction.send_large(self._queue, record)
        reached("trailer-sent")

    def _record(self, part: PartMessage, number: int) -> Record:
        # The CRC32C of 4 MB takes less time than the way to a thread and back.
        return record_of(part.message, self._connection.source, number, part.mark)


async def send_whole(
    runtime: Runtime, transaction: Transaction, queue: int, what: LargeSend
) -> MessageId:
    """Send the header, all fragments and the trailer; when it fails, doom the transaction."""
    connection, size = transaction.connection(), what.source.size
    first = await connection.numbers()
    sending = LargeSending(runtime, transaction, queue, what, number=first)
    report = reporter_of(what)
    try:
        if size != SIZE_UNKNOWN and sending.split.fragments_of(size) > 1:
            # A message without room fails now, not at its last fragment.
            _, number = await transaction.join()
            await connection.ask(Reserve(queue, number, *sending.split.room_for(size)), Done)
        await sending.header()
        async with sending.digest() as digest, aclosing(sending.pieces()) as pieces:
            async for piece in pieces:
                await digest.add(piece)
                await sending.fragment(piece)
                report.advance(len(piece))
            await sending.trailer(await digest.digest())
    except BaseException as error:
        # Half a large message must never be committed, whatever the caller does next.
        transaction.doom(_doom_for(error, transaction))
        raise
    report.finish()
    return MessageId(sending.split.sequence_id)


def split_of(what: LargeSend, manager_id: str, number: int) -> Split:
    """The way in which the large message is cut whose header has that number."""
    return Split(
        what.message,
        ManagerId(manager_id),
        number,
        parameters=what.cut.parameters,
        fragment_size=what.cut.fragment_size,
        digest_kind=what.cut.digest_kind,
        file=what.file,
    )


def reporter_of(what: LargeSend) -> Reporter:
    """Tells how far it is."""
    size = what.source.size
    return Reporter(what.progress, None if size == SIZE_UNKNOWN else size)


def _doom_for(error: BaseException, transaction: Transaction) -> DrayError:
    if isinstance(error, DrayError):
        return error
    return TransactionAborted(
        f"sending a large message failed ({error!r}), so transaction {transaction.id} can only be"
        " aborted; repeat the transaction",
        transaction_id=transaction.id,
    )


class Lender:
    """Lends one file, fragment by fragment, where the socket can carry a descriptor.

    The sender reads each fragment all the same, for its digest and the record's CRC32C, and sends
    only the record's head. The queue manager reads the body from the file into memory of its own,
    and takes it only if it fits that CRC32C: what is placed is what the sender read, or the send
    fails.
    """

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
