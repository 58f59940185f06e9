"""Sending a large message so that it can be gone on with after any end of the sender.

    state file   queue manager knows       what a sender does who comes (again)
    none         nothing                   note a new number in the state file, begin
    there        open, marked up to n      read the body up to n again, compare digests, go on
    there        committed                 nothing: it was sent, only the answer was lost
    there        nothing (aborted)         begin anew, under a new number
    there        too long ago to tell      raise InDoubt

Every 64 MiB the sender marks how far it is, with the digest of the body so far; the mark makes
durable what was sent before it. Nothing is in the queue before the commit, which happens once.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dray.client.awaited.large_sending import Fragmentation, LargeSend
from dray.client.awaited.lending import Lender, lender_of
from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import record_of
from dray.client.files.digest import RollingDigest
from dray.client.files.progress import Reporter
from dray.client.files.sources import PIECES_ALIVE, pieces_of
from dray.client.files.steps import reached
from dray.client.files.upload_state import (
    VERSION,
    UploadNote,
    UploadStateFile,
    changed,
    check_same,
    decode_origin,
    encode_origin,
    origin_of,
)
from dray.errors import InDoubt, Misuse
from dray.large.compression import Compressor
from dray.large.split import SIZE_UNKNOWN, PartMessage, Split
from dray.model.classes import TransactionStatus
from dray.model.files import encode_file
from dray.model.ids import ManagerId, MessageId, join_id, split_id
from dray.model.limits import UPLOAD_MARK_BYTES, UPLOAD_MARK_PARTS
from dray.wire.frames import UploadBegin, UploadMark, UploadResume, UploadState

if TYPE_CHECKING:
    from dray.client.connections.connection import Connection
    from dray.client.connections.link import Link
    from dray.client.files.sources import AwaitedChunkSource, Source
    from dray.client.files.upload_state import UploadOrigin

_OPEN = "open"


class ResumableSend:
    """One large message on its way to a queue, resumed or begun."""

    def __init__(self, link: Link, connection: Connection, queue: int, queue_name: str) -> None:
        """Take where it goes."""
        self._link = link
        self._connection = connection
        self._queue = queue
        self._queue_name = queue_name

    async def send(self, resume: str | Path, what: LargeSend) -> MessageId:
        """Send what is not there yet, and commit; raises as `LargeMessageQueue.send` does."""
        offload, cut = self._link.runtime.offload, what.cut
        said = _said(what)
        origin = origin_of(what.source, said, cut.fragment_size, cut.digest_kind)
        file = None if _is_id(resume) else UploadStateFile(Path(resume))
        note = await offload(file.read) if file is not None else None
        if note is not None and note.queue != self._queue_name:
            raise Misuse(
                f"{resume} is the state of an upload to {note.queue!r}; send to that queue, or"
                " name another state file"
            )
        name = note.sequence_id if note is not None else str(resume) if file is None else ""
        state = await self._look_up(name, origin) if name else None
        if state is None:
            if file is None:
                raise Misuse(f"there is no unfinished upload {name!r} to go on with")
            state = await self._begin(file, what, origin)
        else:
            if note is not None:
                check_same(note.source, origin)
            if state.status == _OPEN:
                check_same(decode_origin(bytes(state.source)), origin)
        if state.status == _OPEN:
            await self._go_on(state, what)
        if file is not None:
            await offload(file.remove)
        return MessageId(state.sequence_id)

    async def _look_up(self, sequence_id: str, origin: UploadOrigin) -> UploadState | None:
        """How an upload stands; None if nothing of it is left and nothing of it happened."""
        state = await self._connection.ask(UploadResume(sequence_id), UploadState)
        state = msgspec.structs.replace(state, sequence_id=sequence_id)
        if state.status in (_OPEN, TransactionStatus.COMMITTED):
            return state
        if state.status == TransactionStatus.ABORTED:
            return None
        raise InDoubt(
            f"the queue manager no longer knows whether the upload {sequence_id} of"
            f" {origin.path or 'this body'} was committed; look for it at its receiver, then"
            " remove the state file to send it again",
            transaction_id=sequence_id,
        )

    async def _begin(
        self, file: UploadStateFile, what: LargeSend, origin: UploadOrigin
    ) -> UploadState:
        number = await self._connection.numbers()
        manager = ManagerId(self._connection.manager_id)
        note = UploadNote(VERSION, join_id(manager, number), self._queue_name, origin)
        # Before anything can be committed: whoever finds the file asks what became of it.
        await self._link.runtime.offload(file.write, note)
        size = what.source.size
        split = self._split(what, number)
        room, longest = split.room_for(size) if size != SIZE_UNKNOWN else (0, 0)
        begin = UploadBegin(self._queue, number, room, encode_origin(origin), longest)
        begun = await self._connection.ask(begin, UploadState)
        reached("upload-begun")
        return begun

    async def _go_on(self, state: UploadState, what: LargeSend) -> None:
        _, number = split_id(state.sequence_id)
        transaction = Transaction(self._link, self._connection, number)
        size = what.source.size
        try:
            await transaction.join()
            sending = _Sending(self, transaction, self._split(what, number), number)
            report = Reporter(what.progress, None if size == SIZE_UNKNOWN else size)
            await sending.all_of(state, what, report)
            await transaction.commit()
            reached("upload-committed")
            report.finish()
        finally:
            # The marked parts stay for a later resume.
            transaction.let_go()

    def _split(self, what: LargeSend, number: int) -> Split:
        return Split(
            what.message,
            ManagerId(self._connection.manager_id),
            number,
            parameters=what.cut.parameters,
            fragment_size=what.cut.fragment_size,
            digest_kind=what.cut.digest_kind,
            file=what.file,
        )

    async def send_part(
        self,
        transaction: Transaction,
        part: PartMessage,
        number: int,
        lent: tuple[Lender, int] | None = None,
    ) -> None:
        """Send one part; `lent` says who lends the file that it is in, and where it is there."""
        message, source = part.message, self._connection.source
        record = await self._link.runtime.work(
            message.body_size, record_of, message, source, number, part.mark
        )
        if lent is None:
            await transaction.send_large(self._queue, record)
        else:
            lender, offset = lent
            await lender.send(self._queue, record, offset)

    def lender(
        self, transaction: Transaction, source: Source | AwaitedChunkSource
    ) -> Lender | None:
        """The lender of a body, if the body can be lent."""
        return lender_of(source, transaction, self._connection)

    async def packed(self, compressor: Compressor, piece: memoryview) -> bytes | None:
        """A fragment compressed, where that pays."""
        return await self._link.runtime.work(len(piece), compressor.packed, piece)

    async def number(self) -> int:
        """A number for a part."""
        return await self._connection.numbers()

    def pieces(
        self, source: Source | AwaitedChunkSource, size: int
    ) -> AsyncGenerator[memoryview, None]:
        """The body in pieces."""
        return pieces_of(source, size, self._link.runtime)

    def rolling(self, cut: Fragmentation) -> RollingDigest:
        """The digest of the body."""
        return RollingDigest(self._link.runtime, behind=PIECES_ALIVE - 1, kind=cut.digest_kind)


class _Sending:
    """The parts of one upload, from where it is."""

    def __init__(
        self, upload: ResumableSend, transaction: Transaction, split: Split, number: int
    ) -> None:
        self._upload = upload
        self._transaction = transaction
        self._split = split
        self._number = number
        self._parts = 0
        self._unmarked_bytes = self._unmarked_parts = 0
        self._compressor = Compressor(None)
        self._lender: Lender | None = None

    async def all_of(self, state: UploadState, what: LargeSend, report: Reporter) -> None:
        """Send what is not there yet."""
        source, cut = what.source, what.cut
        self._compressor = Compressor(cut.compression)
        self._lender = self._upload.lender(self._transaction, source)
        if not state.parts:
            await self._send(self._split.header(source.size), self._number)
            reached("header-sent")
        self._parts = max(1, state.parts)
        async with (
            self._upload.rolling(cut) as digest,
            aclosing(self._upload.pieces(source, cut.fragment_size)) as pieces,
        ):
            async for piece in pieces:
                await digest.add(piece)
                if self._split.count + 1 < state.parts:
                    self._split.skip(len(piece))
                    if self._split.count + 1 == state.parts:
                        await self._check(state, digest, source)
                else:
                    await self._fragment(piece, digest)
                report.advance(len(piece))
            if self._split.count + 1 < state.parts:
                raise changed(_name_of(source))
            if self._lender is not None:
                await self._lender.settle()
            trailer = self._split.trailer(await digest.digest())
            await self._send(trailer, await self._upload.number())
            reached("trailer-sent")

    async def _fragment(self, piece: memoryview, digest: RollingDigest) -> None:
        offset = self._split.size
        packed = await self._upload.packed(self._compressor, piece)
        # Compressed bytes have to pass through here.
        lent = None if self._lender is None or packed is not None else (self._lender, offset)
        part, number = self._split.fragment(piece, packed), await self._upload.number()
        await self._upload.send_part(self._transaction, part, number, lent)
        reached("fragment-sent")
        self._parts += 1
        self._unmarked_parts += 1
        self._unmarked_bytes += len(piece)
        enough = self._unmarked_bytes >= UPLOAD_MARK_BYTES
        if enough or self._unmarked_parts >= UPLOAD_MARK_PARTS:
            self._unmarked_bytes = self._unmarked_parts = 0
            so_far = await digest.digest()
            mark = UploadMark(self._number, self._parts, self._split.size, so_far)
            await self._transaction.say(mark)
            reached("marked")

    async def _check(
        self, state: UploadState, digest: RollingDigest, source: Source | AwaitedChunkSource
    ) -> None:
        """Check that the parts there are the beginning of this body; otherwise send nothing."""
        same = self._split.size == state.size and await digest.digest() == state.digest
        if not same:
            raise changed(_name_of(source))

    async def _send(self, part: PartMessage, number: int) -> None:
        await self._upload.send_part(self._transaction, part, number)


def _is_id(resume: str | Path) -> bool:
    if not isinstance(resume, str):
        return False
    try:
        split_id(resume)
    except Misuse:
        return False
    return True


def _said(what: LargeSend) -> str:
    """A digest of everything that goes into the header besides its number."""
    file = None if what.file is None else encode_file(what.file)
    said = (msgspec.structs.replace(what.message, body=b""), what.cut.parameters, file)
    try:
        encoded = msgspec.json.encode(said)
    except (TypeError, msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise Misuse(f"a property of the message cannot be sent: {error}") from error
    return hashlib.sha256(encoded).hexdigest()


def _name_of(source: Source | AwaitedChunkSource) -> str:
    return str(getattr(source, "path", "the source"))
