"""A large message sent in a transaction: header, fragments, trailer, and the digest of all."""

from __future__ import annotations

from typing import NamedTuple

from dray.client.awaited.lending import lender_of
from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import Record, record_of
from dray.client.connections.runtime import Runtime
from dray.client.files.digest import RollingDigest
from dray.client.files.progress import Progress, Reporter
from dray.client.files.sources import PIECES_ALIVE, AwaitedChunkSource, Source, pieces_of
from dray.client.files.steps import reached
from dray.errors import DrayError, TransactionAborted
from dray.large.compression import Compressor
from dray.large.split import SIZE_UNKNOWN, LargeMessageParameters, PartMessage, Split
from dray.model.files import FileProperties
from dray.model.ids import ManagerId, MessageId
from dray.model.message import Message
from dray.wire.frames import Done, Reserve


class Fragmentation(NamedTuple):
    """How a large message is cut."""

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


async def send_whole(
    runtime: Runtime, transaction: Transaction, queue: int, sending: LargeSend
) -> MessageId:
    """Send the header, all fragments and the trailer; when it fails, doom the transaction."""
    message, source, cut, progress, file = sending
    connection = transaction.connection()
    first = await connection.numbers()
    split = Split(
        message,
        ManagerId(connection.manager_id),
        first,
        parameters=cut.parameters,
        fragment_size=cut.fragment_size,
        digest_kind=cut.digest_kind,
        file=file,
    )

    async def send(part: PartMessage, number: int) -> None:
        await transaction.send_large(queue, made(part, number))

    def made(part: PartMessage, number: int) -> Record:
        # The CRC32C of 4 MB takes less time than the way to a thread and back.
        return record_of(part.message, connection.source, number, part.mark)

    compressor = None if cut.compression is None else Compressor(cut.compression)
    lender = lender_of(source, transaction, connection)
    report = Reporter(progress, None if source.size == SIZE_UNKNOWN else source.size)
    try:
        if source.size != SIZE_UNKNOWN and split.fragments_of(source.size) > 1:
            # A message without room fails now, not at its last fragment.
            _, number = await transaction.join()
            await connection.ask(Reserve(queue, number, *split.room_for(source.size)), Done)
        async with RollingDigest(runtime, behind=PIECES_ALIVE - 1, kind=cut.digest_kind) as rolling:
            await send(split.header(source.size), first)
            reached("header-sent")
            async for piece in pieces_of(source, cut.fragment_size, runtime):
                await rolling.add(piece)
                offset = split.size
                packed = None
                if compressor is not None:
                    packed = await runtime.work(len(piece), compressor.packed, piece)
                part = split.fragment(piece, packed)
                record = made(part, await connection.numbers())
                # Compressed bytes have to pass through here.
                if lender is None or packed is not None:
                    await transaction.send_large(queue, record)
                else:
                    await lender.send(queue, record, offset)
                reached("fragment-sent")
                report.advance(len(piece))
            if lender is not None:
                await lender.settle()
            await send(split.trailer(await rolling.digest()), await connection.numbers())
            reached("trailer-sent")
    except BaseException as error:
        # Half a large message must never be committed, whatever the caller does next.
        transaction.doom(_doom_for(error, transaction))
        raise
    report.finish()
    return MessageId(split.sequence_id)


def _doom_for(error: BaseException, transaction: Transaction) -> DrayError:
    if isinstance(error, DrayError):
        return error
    return TransactionAborted(
        f"sending a large message failed ({error!r}), so transaction {transaction.id} can only be"
        " aborted; repeat the transaction",
        transaction_id=transaction.id,
    )
