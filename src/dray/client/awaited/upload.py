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
from contextlib import aclosing
from pathlib import Path

import msgspec

from dray.client.awaited.large_sending import LargeSend, LargeSending, reporter_of, split_of
from dray.client.awaited.transaction import Transaction
from dray.client.connections.connection import Connection
from dray.client.connections.link import Link
from dray.client.files.digest import RollingDigest
from dray.client.files.progress import Reporter
from dray.client.files.steps import reached
from dray.client.files.upload_state import (
    VERSION,
    UploadNote,
    UploadOrigin,
    UploadStateFile,
    changed,
    check_same,
    decode_origin,
    encode_origin,
    origin_of,
)
from dray.errors import InDoubt, Misuse, SourceChanged
from dray.large.split import SIZE_UNKNOWN
from dray.model.classes import TransactionStatus
from dray.model.files import encode_file
from dray.model.ids import ManagerId, MessageId, join_id, split_id
from dray.model.limits import UPLOAD_MARK_BYTES, UPLOAD_MARK_PARTS
from dray.wire.large_frames import UploadBegin, UploadMark, UploadResume, UploadState

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
        """The state of an upload; None if nothing of it is left and nothing of it happened."""
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
        split = split_of(what, manager, number)
        room, longest = split.room_for(size) if size != SIZE_UNKNOWN else (0, 0)
        begin = UploadBegin(self._queue, number, room, encode_origin(origin), longest)
        begun = await self._connection.ask(begin, UploadState)
        reached("upload-begun")
        return begun

    async def _go_on(self, state: UploadState, what: LargeSend) -> None:
        _, number = split_id(state.sequence_id)
        transaction = Transaction(self._link, self._connection, number)
        report = reporter_of(what)
        try:
            await transaction.join()
            runtime = self._link.runtime
            sending = _ResumedSending(runtime, transaction, self._queue, what, number=number)
            await sending.send_rest(state, report)
            await transaction.commit()
            reached("upload-committed")
            report.finish()
        finally:
            # The marked parts stay for a later resume.
            transaction.let_go()


class _ResumedSending(LargeSending):
    """The parts of one upload, from where it is."""

    _unmarked_bytes = _unmarked_parts = 0

    async def send_rest(self, state: UploadState, report: Reporter) -> None:
        """Send what is not there yet; raises `SourceChanged` if that is of another body."""
        if not state.parts:
            await self.header()
        async with self.digest() as digest, aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                await digest.add(piece)
                if self._parts < state.parts:
                    self.split.skip(len(piece))
                    if self._parts == state.parts:
                        await self._check(state, digest)
                else:
                    await self.fragment(piece)
                    await self._mark(len(piece), digest)
                report.advance(len(piece))
            if self._parts < state.parts:
                raise self._changed()
            await self.trailer(await digest.digest())

    @property
    def _parts(self) -> int:
        """The parts so far: the header and the fragments."""
        return 1 + self.split.count

    async def _mark(self, size: int, digest: RollingDigest) -> None:
        """Count a part of `size` bytes; mark how far it is once enough is unmarked."""
        self._unmarked_bytes += size
        self._unmarked_parts += 1
        if self._unmarked_bytes >= UPLOAD_MARK_BYTES or self._unmarked_parts >= UPLOAD_MARK_PARTS:
            self._unmarked_bytes = self._unmarked_parts = 0
            so_far = await digest.digest()
            mark = UploadMark(self._number, self._parts, self.split.size, so_far)
            await self._transaction.say(mark)
            reached("marked")

    async def _check(self, state: UploadState, digest: RollingDigest) -> None:
        """Check that the parts there are the beginning of this body; otherwise send nothing."""
        if self.split.size != state.size or await digest.digest() != state.digest:
            raise self._changed()

    def _changed(self) -> SourceChanged:
        return changed(str(getattr(self._what.source, "path", "the source")))


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
