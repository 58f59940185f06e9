"""A large message that is being received: its parts are held by the transaction and read on demand.

Parts are asked for a few ahead of the one in hand and come from the heap file through the kernel.
Each record's CRC32C is checked before a byte of it is handed out, the digest of the whole before
the end is believed: a reader that has seen the end has seen what was sent.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from dray.client.awaited.fragments import Fragments, Held, Origin
from dray.client.awaited.large_message_file import LargeMessageFile, Layout
from dray.client.awaited.saving import Saving
from dray.client.awaited.transaction import Transaction
from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.messages import Arrived, arrived, checked_header
from dray.client.calls.public_calls import public
from dray.client.files.digest import RollingDigest
from dray.client.files.partial_file import PartialFile
from dray.client.files.progress import Progress, Reporter
from dray.client.files.steps import reached
from dray.client.formatters import Decoder, decoded
from dray.errors import LargeMessageCorrupt, LargeMessageError, ProtocolError, TransactionUsage
from dray.large.split import Control, read_control
from dray.model.classes import Acknowledge, TransactionStatus
from dray.model.files import decode_file
from dray.model.message import Message
from dray.model.words import counted
from dray.wire.large_frames import LargeAt, LargeFound, PartAt


def open_found(origin: Origin, found: LargeFound, body: memoryview) -> LargeMessage:
    """Take header and trailer apart.

    Raises `LargeMessageCorrupt` if they were damaged on the way, `Unreadable` if they were not.
    """
    split = found.header.length
    try:
        return _opened(origin, found, body[:split], body[split:])
    finally:
        origin.connection.give_back(body)


def open_taken(origin: Origin, found: LargeAt, body: memoryview, *, whole: bool) -> LargeMessage:
    """Take a message apart that came with others, or by itself if it is not `whole` there.

    Raises as `open_found` does.
    """
    parts = [each.length for each in found.parts] if whole else []
    ends = accumulate((found.header.length, *parts, found.trailer.length), initial=0)
    records = [body[first:last] for first, last in pairwise(ends)]
    message = _opened(origin, found, records[0], records[-1])
    message.bring(records[1:-1])
    return message


def _opened(
    origin: Origin, found: LargeFound | LargeAt, first: memoryview, last: memoryview
) -> LargeMessage:
    trailer_envelope = found.trailer
    try:
        if trailer_envelope is None:
            raise ProtocolError("the queue manager announced a large message without its trailer")
        for envelope, record in ((found.header, first), (trailer_envelope, last)):
            checked_header(record, envelope.length, envelope.crc)
    except ProtocolError as error:
        raise LargeMessageCorrupt(
            f"the header or trailer of large message {origin.sequence_id} cannot be read: {error}",
            sequence_id=origin.sequence_id,
        ) from error
    try:
        header = arrived(found.header, first, origin.queue_name)
        trailer = arrived(trailer_envelope, last, origin.queue_name)
        control = read_control(trailer.message.body)
    except ProtocolError as error:
        raise Unreadable(origin, str(error), found.header.lookup_id) from error
    if control.fragment_count != len(found.parts):
        why = f"it has {counted(len(found.parts), 'fragment')} and says {control.fragment_count}"
        raise Unreadable(origin, why, found.header.lookup_id)
    return LargeMessage(origin, found.parts, control, header)


def verified_pieces(message: LargeMessage) -> AsyncGenerator[memoryview, None]:
    """The body in pieces, each valid until the next is asked for; the digest is checked."""
    return message._verified()  # noqa: SLF001 - for readers of this package's kind only


async def checked_pieces(
    message: LargeMessage, first: int, last: int
) -> AsyncGenerator[tuple[int, memoryview], None]:
    """The fragments from number `first` to `last`, each with its place in the body.

    Each fits its CRC32C, and is valid until the next is asked for. The digest is not checked.
    """
    fragments = message._fragments  # noqa: SLF001 - see `verified_pieces`
    number = first
    async with aclosing(fragments.checked(first, last)) as checked:
        async for piece, record in checked:
            fragments.check_length(number, piece)
            yield (number - 1) * fragments.layout.fragment_size, piece
            fragments.origin.connection.give_back(record)
            number += 1


async def save_into(message: LargeMessage, file: PartialFile) -> None:
    """Write the body into a file that its owner finishes or discards.

    Raises `LargeMessageCorrupt`, `TargetUnwritable`.
    """
    await message._save_into(file, Reporter(None, message.size))  # noqa: SLF001 - see above


class Said(NamedTuple):
    """The contents of header and trailer."""

    sequence_id: str
    control: Control
    header: Message


class Described:
    """Properties of a large message, from its header and trailer, as attributes."""

    def __init__(self, said: Said) -> None:
        """Keep the contents of header and trailer."""
        self.said = said
        sequence_id, control, header = said
        self.sequence_id = sequence_id
        self.label = control.label
        self.correlation_id = control.correlation_id
        self.app_specific = control.app_specific
        self.size = control.size
        self.digest = control.digest
        self.digest_kind = control.digest_kind
        self.fragment_count = control.fragment_count
        self.extension = control.extension
        self.response_queue = control.response_queue
        self.administration_queue = control.administration_queue
        self.traceparent = control.traceparent
        self.acknowledge = Acknowledge(control.acknowledge)
        self.file = None if control.file is None else decode_file(control.file)
        self.transaction_id = header.transaction_id
        self.source = header.source
        self.sent_time = header.sent_time
        self.arrived_time = header.arrived_time
        self.abort_count = header.abort_count


@public(made_by="LargeMessageQueue.receive", inner=["bind", "bring"])
class LargeMessage(Described):
    """A received large message: its properties, and its body, which can be read repeatedly.

    Without a transaction of the caller `receive` began one for it. As a context manager the message
    commits it, or aborts it on an exception. Without `with`, `commit` receives the message for good
    and `close` gives it back; a message that is dropped while its transaction is open is given back
    with a `ResourceWarning`. A transaction of the caller is left alone.
    """

    def __init__(
        self, origin: Origin, parts: list[PartAt], control: Control, header: Arrived
    ) -> None:
        """Take what header and trailer say; no fragment is read yet."""
        super().__init__(Said(origin.sequence_id, control, header.message))
        layout = Layout(control.size, control.fragment_size)
        self._fragments = Fragments(origin, parts, header.header.number, layout)
        self._reading = origin.runtime.lock()
        self._cursor: AsyncGenerator[memoryview, None] | None = None
        self._rest = memoryview(b"")
        self._given = 0
        """Bytes of the body that the cursor has given, `_rest` among them."""

    def __repr__(self) -> str:
        return f"<LargeMessage {self.sequence_id} {self.label!r} {self.size} bytes>"

    def bind(self, transaction: Transaction, *, owned: bool, repair: bool = False) -> None:
        """Belong to the transaction that holds the parts; `owned` if it ends with this message.

        `repair` if a damaged part may be asked for again.
        """
        header = self.said.header.lookup_id or 0
        self._fragments.held = Held(transaction, header, owned, repair)

    def bring(self, records: list[memoryview]) -> None:
        """Have the records of all fragments, so that none is asked for."""
        self._fragments.here = records

    async def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, by default all that are left; b"" at the end.

        Several threads or tasks take turns: each byte is given to one of them. Raises
        `LargeMessageCorrupt` if the CRC32C of a record is wrong, or at the end if the digest is
        wrong.
        """
        if size >= 0:
            room = bytearray(min(size, self.size))
            return bytes(room[: await self.readinto(room)])
        self._fragments.check_here()
        async with self._from_here():
            # A copy first: the memory behind it serves the pieces that follow.
            pieces = [bytes(self._rest)]
            while (piece := await self._next_piece()) is not None:
                pieces.append(bytes(piece))
            self._rest = memoryview(b"")
            return b"".join(pieces)

    async def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer; fewer bytes only at the end, then 0. Raises as `read` does."""
        self._fragments.check_here()
        room = memoryview(buffer).cast("B")
        have = 0
        async with self._from_here():
            while have < len(room):
                if not self._rest:
                    piece = await self._next_piece()
                    if piece is None:
                        break
                    # The memory of the piece serves the next one, but not before it is read.
                    self._rest = piece
                count = min(len(room) - have, len(self._rest))
                room[have : have + count] = self._rest[:count]
                have, self._rest = have + count, self._rest[count:]
        return have

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Iterate over the body in pieces, from its beginning; raises as `read` does."""
        async with aclosing(self._verified()) as pieces:
            async for piece in pieces:
                yield bytes(piece)

    async def body(self, formatter: Decoder | None = None) -> Any:  # noqa: ANN401 - the formatter says
        """Return the body as bytes, or as the object that `formatter` makes of it."""
        whole = b"".join([piece async for piece in self])
        return whole if formatter is None else decoded(formatter, whole)

    def open(self) -> LargeMessageFile:
        """Open the body as a seekable file; any number may be open at a time.

        A file can be read while the transaction of the message is open. Reads check the CRC32C of
        the fragments, not the digest of the body. Raises `LargeMessageCorrupt`.
        """
        fragments = self._fragments
        return LargeMessageFile(fragments.layout, fragments.alone, fragments.check_held)

    async def read_range(self, offset: int, length: int = -1) -> bytes:
        """Return up to `length` bytes from `offset` on, by default all that are left.

        Several threads or tasks may call it at a time. It checks what `open` checks.
        """
        fragments, layout = self._fragments, self._fragments.layout
        length = layout.clipped(offset, length)
        fragments.check_held()
        if not length:
            return b""
        first, within = layout.place_of(offset)
        last, _ = layout.place_of(offset + length - 1)
        pieces: list[bytes] = []
        async with aclosing(fragments.checked(first, last)) as checked:
            async for piece, record in checked:
                fragments.check_length(first + len(pieces), piece)
                left = length - sum(map(len, pieces))
                pieces.append(bytes(piece[within : within + left]))
                fragments.origin.connection.give_back(record)
                within = 0
        return b"".join(pieces)

    async def save_to(
        self,
        path: str | Path,
        progress: Progress | None = None,
        *,
        resume: bool = False,
        sync: bool = True,
    ) -> Path:
        """Write the body to a file, which appears complete and durable, or not at all.

        The file grows as `<path>.partial`; once digest and size are right it is synced and renamed.
        With `resume` the partial file stays when writing ends early, and the next such call
        continues after the part that is right. Raises `LargeMessageCorrupt`, `TargetUnwritable`.

        With `sync=False` the file is complete and verified, but not synced: a power failure within
        about half a minute may lose it. Use it when you sync the file and its directory yourself
        before you commit the message, or when the message can be received again.
        """
        self._fragments.check_here()
        offload = self._fragments.origin.runtime.offload
        report = Reporter(progress, self.size)
        file = await offload(partial(PartialFile, Path(path), resume=resume, sync=sync))
        try:
            await self._save_into(file, report, resume=resume)
            await offload(file.finish)
        except BaseException as error:
            useless = not resume or isinstance(error, LargeMessageError)
            await offload(file.discard if useless else file.keep)
            raise
        report.finish()
        return file.target

    async def _save_into(
        self, file: PartialFile, report: Reporter, *, resume: bool = False
    ) -> None:
        saving = Saving(self._fragments, file, self.digest_kind)
        async with aclosing(saving.lengths(resume=resume)) as lengths:
            async for length in lengths:
                reached("fragment-saved")
                report.advance(length)
        if saving.digest != self.digest:
            raise self._fragments.corrupt(
                "its bytes are not the ones that were sent: the digest does not fit"
            )

    async def commit(self) -> None:
        """Receive the message for good: commit the transaction that `receive` began for it."""
        self._fragments.check_here()
        held = self._fragments.held
        if held is None or not held.owned:
            raise TransactionUsage(
                f"large message {self.sequence_id} has no transaction of its own to commit: it"
                " was peeked at, or received in your transaction; commit that one"
            )
        await held.transaction.commit()
        reached("receive-committed")

    async def close(self) -> None:
        """Give the message back unless it is committed: abort the transaction of `receive`.

        It does nothing in a transaction of the caller, nothing the second time, and nothing in a
        process forked from the one that received it.
        """
        if not self._fragments.is_here:
            return
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor.aclose()
        transaction = self._open_transaction()
        if transaction is not None:
            await transaction.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._open_transaction() is not None:
            await self.commit()
        await self.close()

    def __del__(self) -> None:
        # A constructor that failed has set nothing.
        transaction = self._open_transaction() if hasattr(self, "_fragments") else None
        if transaction is not None and transaction.is_here:
            transaction.leave()
            warnings.warn(
                f"{self!r} was dropped without being committed or closed, so it is given back;"
                " use it in a `with` block",
                ResourceWarning,
                stacklevel=2,
            )

    def _open_transaction(self) -> Transaction | None:
        """The transaction of its own that is waiting for its end."""
        held = self._fragments.held
        if held is None or not held.owned:
            return None
        pending = held.transaction.status is TransactionStatus.PENDING
        return held.transaction if pending else None

    @asynccontextmanager
    async def _from_here(self) -> AsyncIterator[None]:
        """Read on from where a reader stands; one that fails or is interrupted stands there still.

        Or the next one would take the end of a pass that was cut off for the end of the body.
        Others wait meanwhile: there is one pass.
        """
        async with self._reading:
            stands_at = self._given - len(self._rest)
            try:
                yield
            except BaseException:
                cursor, self._cursor = self._cursor, None
                self._rest, self._given = memoryview(b""), stands_at
                if cursor is not None:
                    await cursor.aclose()
                raise

    async def _next_piece(self) -> memoryview | None:
        """The next piece of the one pass that `read` and `readinto` share; None at its end.

        A pass that was cut off is begun anew, and what of it was given out is passed over.
        """
        passed = self._given
        if self._cursor is None:
            self._cursor, passed = self._verified(), 0
        while (piece := await anext(self._cursor, None)) is not None:
            passed += len(piece)
            if passed > self._given:
                piece = piece[len(piece) - (passed - self._given) :]
                self._given = passed
                return piece
        return None

    async def _verified(self) -> AsyncGenerator[memoryview, None]:
        """Read the body from its beginning; each piece is valid until the next is asked for."""
        fragments, size = self._fragments, 0
        origin = fragments.origin
        async with (
            RollingDigest(origin.runtime, behind=1, kind=self.digest_kind) as digest,
            aclosing(fragments.checked(1, len(fragments))) as checked,
        ):
            async for piece, record in checked:
                size += len(piece)
                await digest.add(piece)
                yield piece
                await digest.settle()
                origin.connection.give_back(record)
            if size != self.size or await digest.digest() != self.digest:
                raise fragments.corrupt(
                    "its bytes are not the ones that were sent: size or digest does not fit"
                )
