"""One upload that a client sends piece by piece, over a resumable upload of the queue manager.

    begun     bytes of a request    fragments of one length go out; the rest of one waits here
    begun     end of a request      the fragments are marked, durably, before the answer
    begun     the last byte         the rest goes out, then the trailer, and it is committed
    begun     checksum is wrong     everything since the beginning of the request is dropped

The queue manager keeps the fragments, and this process keeps the digest of the body so far. Where
it has none, because it was started anew, it reads the fragments back and takes the digest again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec
from blake3 import blake3

from dray.aio import Queue
from dray.client.awaited.large import PARAMETERS
from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import checked_header, record_of
from dray.client.connections.connection import Connection
from dray.client.connections.link import Link
from dray.client.files.upload_state import UploadOrigin
from dray.console.http.bodies import RequestBody
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.limits import SETTLE_S, UPLOAD_FRAGMENT_BYTES, UPLOAD_FRAGMENTS
from dray.console.v1.metadata import UploadMetadata, metadata_of
from dray.errors import MessageNotFound, NotTransactional, ProtocolError, TransactionSequence
from dray.large.digests import BLAKE3, Digest
from dray.large.split import PartMessage, RoomNeeded, Split
from dray.model import limits
from dray.model.classes import TransactionStatus
from dray.model.ids import ManagerId, join_id
from dray.model.message import Message
from dray.model.names import STATUS_QUEUE
from dray.wire import large_frames
from dray.wire.frames import Done
from dray.wire.queue_frames import OpenQueue
from dray.wire.record import HEADER_BYTES

_OPEN: Final = "open"
_SAID: Final = "tus"


class HttpOrigin(UploadOrigin, frozen=True, kw_only=True):
    """The source of an upload over HTTP, as it is kept at the queue manager."""

    metadata: str
    """`Upload-Metadata` as its client sent it."""


class UploadName(NamedTuple):
    """The name of an upload in its address: the queue manager, the number, and the length."""

    manager: str
    number: int
    length: int

    def __str__(self) -> str:
        return f"{self.manager}-{self.number}-{self.length}"

    @property
    def sequence_id(self) -> str:
        """The id of the large message that it becomes."""
        return join_id(ManagerId(self.manager), self.number)


class HttpUpload:
    """One upload at hand: how far it is, and the digest so far."""

    def __init__(self, name: UploadName, queue: int, origin: HttpOrigin, message: Message) -> None:
        """Begin at the first byte, with nothing sent."""
        self.name = name
        self.lock = asyncio.Lock()
        self.committed = False
        self._body: RequestBody | None = None
        """The body of the request that has the upload, or that will have it next."""
        self._queue = queue
        self._origin = origin
        self._message = message
        self._digest = blake3()
        self._split = self._split_from(0)
        self._rest = bytearray()
        self._parts = 0
        """Marked parts, the header among them."""

    @property
    def offset(self) -> int:
        """The bytes that have come."""
        return self.name.length if self.committed else self._split.size + len(self._rest)

    @property
    def metadata(self) -> str:
        """`Upload-Metadata` as its client sent it; empty for one that was found committed."""
        return self._origin.metadata

    @property
    def room(self) -> RoomNeeded:
        """Bytes that the records of all parts take."""
        return self._split.room_for(self.name.length)

    async def begin(self, link: Link, connection: Connection) -> None:
        """Send the header, durably; an empty body is sent whole."""
        transaction = Transaction(link, connection, self.name.number)
        await transaction.join()
        await self._send(transaction, self._split.header(self.name.length), self.name.number)
        await self._mark(transaction, 1)
        if not self.name.length:
            await self._finish(transaction)
        else:
            transaction.let_go()
            await self.attach(link)

    @asynccontextmanager
    async def sent_by(self, body: RequestBody) -> AsyncIterator[None]:
        """Have the upload for the request with this body, which `interrupt` ends from now on.

        Raises `HttpRefusal`, 423, if another one sends it, or something else has it for long.
        """
        if self._body is not None:
            raise in_use()
        # Known before the first wait: an interrupt that it misses would wait for a dead client.
        self._body = body
        try:
            async with self.alone():
                yield
        finally:
            self._body = None

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Have the upload for one request; raises `HttpRefusal`, 423, if that takes too long."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self.lock.acquire()
        except TimeoutError as error:
            raise in_use() from error
        try:
            yield
        finally:
            self.lock.release()

    def interrupt(self) -> None:
        """End the request that sends bytes of this upload, if there is one."""
        if self._body is not None:
            self._body.interrupt()

    async def take(
        self, link: Link, pieces: AsyncIterable[memoryview], check: RequestChecksum | None
    ) -> None:
        """Take in the bytes of one request, of an upload that was attached just now.

        Raises `HttpRefusal` for a wrong checksum, and for a request that is interrupted.
        """
        transaction = Transaction(link, await link.connection(), self.name.number)
        before = self._digest.copy(), self._split.count, bytes(self._rest)
        try:
            await transaction.join()
            try:
                await self._take_all(transaction, pieces, check)
            except BaseException:
                if check is None and transaction.under_way:
                    # Fragments that came whole are kept, and the client goes on behind them.
                    await self._mark(transaction, self._split.count + 1)
                raise
            if self.offset == self.name.length:
                await self._finish(transaction)
                return
            await self._mark(transaction, self._split.count + 1)
        except BaseException:
            if check is not None:
                self._digest, self._rest = before[0], bytearray(before[2])
                self._split = self._split_from(before[1])
            raise
        finally:
            transaction.let_go()
        # The answer to this waits for the sync of the mark.
        await self.attach(link)

    async def _take_all(
        self,
        transaction: Transaction,
        pieces: AsyncIterable[memoryview],
        check: RequestChecksum | None,
    ) -> None:
        length, size = self.name.length, self._origin.fragment_size
        unmarked_bytes = unmarked_parts = 0
        async for piece in pieces:
            if check is not None:
                check.update(piece)
            if self.offset + len(piece) > length:
                raise too_long(length)
            self._rest += piece
            while len(self._rest) >= size:
                await self._fragment(transaction, bytes(memoryview(self._rest)[:size]))
                del self._rest[:size]
                unmarked_bytes, unmarked_parts = unmarked_bytes + size, unmarked_parts + 1
            enough = (
                unmarked_bytes >= limits.UPLOAD_MARK_BYTES
                or unmarked_parts >= limits.UPLOAD_MARK_PARTS
            )
            if check is None and enough:
                unmarked_bytes = unmarked_parts = 0
                await self._mark(transaction, self._split.count + 1)
        if check is not None and not check.fits:
            raise HttpRefusal(
                460, "checksum-mismatch", "the bytes do not fit their Upload-Checksum, and none of"
                " them is kept; send them again",
            )  # fmt: skip

    async def _fragment(self, transaction: Transaction, body: bytes) -> None:
        self._digest.update(body)
        number = await transaction.connection().numbers()
        await self._send(transaction, self._split.fragment(body), number)

    async def _finish(self, transaction: Transaction) -> None:
        """Send what is left, and the trailer, and commit."""
        if self._rest or not self._split.count:
            await self._fragment(transaction, bytes(self._rest))
            self._rest.clear()
        number = await transaction.connection().numbers()
        await self._send(transaction, self._split.trailer(self._digest.digest()), number)
        await transaction.commit()
        self.committed = True

    async def _send(self, transaction: Transaction, part: PartMessage, number: int) -> None:
        record = record_of(part.message, transaction.connection().source, number, part.mark)
        await transaction.send_large(self._queue, record)

    async def _mark(self, transaction: Transaction, parts: int) -> None:
        if parts == self._parts:
            return
        digest = self._digest.digest()
        await transaction.say(
            large_frames.UploadMark(self.name.number, parts, self._split.size, digest)
        )
        self._parts = parts

    async def attach(self, link: Link) -> None:
        """Have the upload on this connection, with the digest of all that the manager has."""
        state = await _state_of(link, self.name)
        if state.status == TransactionStatus.COMMITTED:
            self.committed = True
            return
        if (state.parts, state.size) != (self._parts, self._split.size):
            await self._read_back(await link.connection(), state)

    async def _read_back(self, connection: Connection, state: large_frames.UploadState) -> None:
        """Take the digest of the marked fragments again."""
        self._digest, self._rest, self._parts = blake3(), bytearray(), state.parts
        for part in range(1, state.parts):
            frame = await connection.call(
                large_frames.UploadRead(self.name.number, part), large_frames.UploadPart
            )
            assert isinstance(frame.head, large_frames.UploadPart)
            record = frame.body
            header = checked_header(record, len(record), frame.head.crc)
            self._digest.update(record[HEADER_BYTES + header.properties_bytes :])
            connection.give_back(record)
        self._split = self._split_from(max(0, state.parts - 1))
        if self._split.size != state.size or self._digest.digest() != state.digest:
            raise ProtocolError("the fragments of an upload do not fit their digest")

    def _split_from(self, fragments: int) -> Split:
        split = Split(
            self._message,
            ManagerId(self.name.manager),
            self.name.number,
            parameters=PARAMETERS,
            fragment_size=self._origin.fragment_size,
            digest_kind=BLAKE3,
        )
        for _ in range(fragments):
            split.skip(self._origin.fragment_size)
        return split


class RequestChecksum:
    """The checksum that the bytes of one request have to fit."""

    def __init__(self, digest: Digest, wanted: bytes) -> None:
        """Take a digest that has begun."""
        self._digest = digest
        self._wanted = wanted

    def update(self, piece: memoryview) -> None:
        """Take in more bytes."""
        self._digest.update(piece)

    @property
    def fits(self) -> bool:
        """Whether all bytes so far are the right ones."""
        return self._digest.digest() == self._wanted


async def begun(queue: Queue, length: int, metadata: UploadMetadata) -> HttpUpload:
    """Begin an upload to a queue; its header is durable then."""
    link = queue.handle.link
    connection = await link.connection()
    opened = await queue.handle.opened(connection)
    if not opened.transactional:
        raise NotTransactional(
            f"queue {queue.name!r} is not transactional; an upload needs a transactional queue",
            queue=queue.name,
        )
    connection.leave_once(OpenQueue(STATUS_QUEUE, for_status=True))
    number = await connection.numbers()
    name = UploadName(connection.manager_id, number, length)
    size = _fragment_size(length)
    origin = HttpOrigin(
        _SAID,
        size,
        BLAKE3,
        length,
        f"HTTP to {queue.name}",
        metadata=metadata.said,
    )
    source = msgspec.json.encode(origin)
    if len(source) > limits.UPLOAD_SOURCE_BYTES_MAX:
        raise HttpRefusal(413, "metadata-too-large", "Upload-Metadata is too long; send less of it")
    upload = HttpUpload(name, opened.number, origin, metadata.message)
    room, longest = upload.room
    begin = large_frames.UploadBegin(opened.number, number, room, source, longest)
    await connection.ask(begin, large_frames.UploadState)
    await upload.begin(link, connection)
    return upload


async def progress_of(link: Link, name: UploadName) -> tuple[int, str]:
    """The bytes of an upload that is not at hand, and its `Upload-Metadata`."""
    state = await _state_of(link, name)
    if state.status == TransactionStatus.COMMITTED:
        return name.length, ""
    return state.size, _origin_of(state).metadata


async def resumed(queue_named: Callable[[str], Queue], link: Link, name: UploadName) -> HttpUpload:
    """An upload that was begun elsewhere; what of it is here is read back when it goes on."""
    state = await _state_of(link, name)
    if state.status == TransactionStatus.COMMITTED:
        origin = HttpOrigin(_SAID, _fragment_size(name.length), BLAKE3, metadata="")
        upload = HttpUpload(name, 0, origin, Message())
        upload.committed = True
        return upload
    origin = _origin_of(state)
    metadata = metadata_of(origin.metadata)
    opened = await queue_named(metadata.queue).handle.opened(await link.connection())
    upload = HttpUpload(name, opened.number, origin, metadata.message)
    await upload.attach(link)
    return upload


async def drop(link: Link, name: UploadName) -> None:
    """Drop an upload for good."""
    try:
        await link.ask(large_frames.UploadDrop(name.sequence_id), Done)
    except (MessageNotFound, TransactionSequence) as error:
        raise gone() from error


def in_use() -> HttpRefusal:
    """The answer to a request for an upload that another request has."""
    return HttpRefusal(423, "in-use", "another request has this upload; wait for its end")


def gone() -> HttpRefusal:
    """The answer for an upload that was dropped, by a client or by age, or never was."""
    return HttpRefusal(
        404, "upload-not-found", "there is no such upload: it was dropped, nobody resumed it for a"
        " week, or another caller began it; begin another one",
    )  # fmt: skip


def too_long(length: int) -> HttpRefusal:
    """The answer to a request that sends more bytes than the upload has."""
    return HttpRefusal(
        400, "upload-too-long", f"the upload has {length} bytes, and more came; send the rest only"
    )


async def _state_of(link: Link, name: UploadName) -> large_frames.UploadState:
    try:
        state = await link.ask(
            large_frames.UploadResume(name.sequence_id), large_frames.UploadState
        )
    except (MessageNotFound, TransactionSequence) as error:
        raise gone() from error
    if state.status not in (_OPEN, TransactionStatus.COMMITTED):
        raise gone()
    return state


def _origin_of(state: large_frames.UploadState) -> HttpOrigin:
    try:
        return msgspec.json.decode(bytes(state.source), type=HttpOrigin)
    except msgspec.MsgspecError as error:
        raise gone() from error


def _fragment_size(length: int) -> int:
    """The length of all fragments but the last."""
    wanted = max(UPLOAD_FRAGMENT_BYTES, -(-length // UPLOAD_FRAGMENTS))
    return min(limits.FRAGMENT_BYTES_MAX, wanted)
