"""A large message that is being received: its parts are held by the transaction and read on demand.

Parts are asked for a few ahead of the one in hand and come from the heap file through the kernel.
Each record's CRC32C is checked before a byte of it is handed out, the digest of the whole before
the end is believed: a reader that has seen the end has seen what was sent.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dray.client.awaited.copying import FileCopies, can_be_copied
from dray.client.awaited.described import Described, Said
from dray.client.awaited.large_message_file import LargeMessageFile, Layout
from dray.client.awaited.resumed_save import Saving, save_on
from dray.client.digest import RollingDigest
from dray.client.messages import Arrived, arrived, checked_header
from dray.client.partial_file import PartialFile
from dray.client.progress import Progress, Reporter
from dray.client.sources import PIECES_ALIVE
from dray.errors import (
    LargeMessageCorrupt,
    LargeMessageError,
    LargeMessageHole,
    ProtocolError,
    TransactionSequence,
    TransactionUsage,
)
from dray.large.compression import unpacked
from dray.large.split import Control, read_control
from dray.model.classes import Part, TransactionStatus
from dray.model.limits import FRAGMENT_BYTES_MAX, MESSAGE_BYTES_MAX, MIB
from dray.wire.frames import Done, LargeFound, PartAt, PartDamaged, Range, ReadPart, Reject
from dray.wire.record import HEADER_BYTES

if TYPE_CHECKING:
    from types import TracebackType

    from dray.client.awaited.transaction import Transaction
    from dray.client.connection import Connection
    from dray.client.formatters import Formatter
    from dray.client.runtime import Runtime
    from dray.client.session import Pending

_AHEAD_PARTS_MIN = 2
_AHEAD_PARTS_MAX = 64
_AHEAD_BYTES = MIB
"""Short parts are asked for more at a time, so that a round trip is not paid for each."""


class Origin(NamedTuple):
    """Where a large message is read from."""

    runtime: Runtime
    connection: Connection
    queue: int
    queue_name: str
    sequence_id: str


def open_found(origin: Origin, found: LargeFound, body: memoryview) -> LargeMessage:
    """Take header and trailer apart; raises `LargeMessageCorrupt` if they do not fit together."""
    split = found.header.length
    trailer_envelope = found.trailer
    try:
        if trailer_envelope is None:
            raise ProtocolError("a large message was announced without its trailer")
        header = arrived(found.header, body[:split], origin.queue_name)
        trailer = arrived(trailer_envelope, body[split:], origin.queue_name)
        control = read_control(trailer.message.body)
    except ProtocolError as error:
        raise LargeMessageCorrupt(
            f"header or trailer of large message {origin.sequence_id} cannot be read: {error}",
            sequence_id=origin.sequence_id,
        ) from error
    finally:
        origin.connection.give_back(body)
    if control.fragment_count != len(found.parts):
        raise LargeMessageCorrupt(
            f"large message {origin.sequence_id} came with {len(found.parts)} fragments and says"
            f" that it has {control.fragment_count}",
            sequence_id=origin.sequence_id,
        )
    return LargeMessage(origin, found.parts, control, header)


class LargeMessage(Described):
    """One large message: what was said of it, and its body as often as it is read.

    Without a transaction of the caller's, `receive` began one for it. As a context manager the
    message commits it, or aborts it on an exception. Without `with`, `commit` receives the message
    for good and `close` gives it back; one that is dropped while its transaction is open is given
    back with a `ResourceWarning`. A transaction of the caller's is left alone.
    """

    def __init__(
        self, origin: Origin, parts: list[PartAt], control: Control, header: Arrived
    ) -> None:
        """Take what header and trailer say; no fragment is read yet."""
        super().__init__(Said(origin.sequence_id, control, header.message))
        self._origin = origin
        self._parts = parts
        self._sequence = header.header.number
        self._transaction: Transaction | None = None
        self._owned = False
        self._repair = False
        self._cursor: AsyncGenerator[memoryview, None] | None = None
        self._rest = memoryview(b"")

    def __repr__(self) -> str:
        return f"<LargeMessage {self.sequence_id} {self.label!r} {self.size} bytes>"

    def bind(self, transaction: Transaction, *, owned: bool, repair: bool = False) -> None:
        """Belong to the transaction that holds the parts; `owned` if it ends with this message.

        `repair` if a damaged part may be asked for again.
        """
        self._repair = repair
        self._transaction = transaction
        self._owned = owned

    async def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, all that is left by default; b"" at the end.

        Raises `LargeMessageCorrupt` where a record does not fit its CRC32C, or at the end if the
        digest does not fit.
        """
        if size < 0:
            rest, self._rest = self._rest, memoryview(b"")
            # A copy first: the memory behind `rest` serves the pieces that follow.
            return b"".join([bytes(rest), *[bytes(piece) async for piece in self._pieces()]])
        room = bytearray(size)
        return bytes(room[: await self.readinto(room)])

    async def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer; fewer bytes only at the end, 0 behind it. Raises as `read` does."""
        room = memoryview(buffer).cast("B")
        have = 0
        while have < len(room):
            if not self._rest:
                piece = await anext(self._pieces(), None)
                if piece is None:
                    break
                # The memory of the piece serves the next one, but not before this one is read.
                self._rest = piece
            count = min(len(room) - have, len(self._rest))
            room[have : have + count] = self._rest[:count]
            have, self._rest = have + count, self._rest[count:]
        return have

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Give the body piece by piece, from its beginning; raises as `read` does at its end."""
        async with aclosing(self._verified()) as pieces:
            async for piece in pieces:
                yield bytes(piece)

    async def body(self, formatter: Formatter | None = None) -> Any:  # noqa: ANN401 - the formatter says
        """Give all of the body as bytes, or as the object that `formatter` makes of them."""
        whole = b"".join([piece async for piece in self])
        return whole if formatter is None else formatter.decode(whole)

    def open(self) -> LargeMessageFile:
        """Give a file in which one can seek, at its first byte; any number may be open at a time.

        It is good as long as the transaction of the message is open. Each reading is checked by the
        CRC32C of its fragments, not by the digest of the whole. Raises `LargeMessageCorrupt`.
        """
        return LargeMessageFile(self._layout(), self._fragment_alone, self._check_held)

    async def read_range(self, offset: int, length: int = -1) -> bytes:
        """Give up to `length` bytes from `offset` on, all that are left by default.

        Any number of them at a time, also from several threads or tasks. Checked as `open` says.
        """
        layout = self._layout()
        length = layout.clipped(offset, length)
        self._check_held()
        if not length:
            return b""
        first, within = layout.place_of(offset)
        last, _ = layout.place_of(offset + length - 1)
        pieces: list[bytes] = []
        async with aclosing(self._checked(first, last)) as checked:
            async for piece, record in checked:
                number = first + len(pieces)
                self._check_length(layout, number, piece)
                left = length - sum(map(len, pieces))
                pieces.append(bytes(piece[within : within + left]))
                self._origin.connection.give_back(record)
                within = 0
        return b"".join(pieces)

    async def save_to(
        self, path: str | Path, progress: Progress | None = None, *, resume: bool = False
    ) -> Path:
        """Write the body to a file, which is there whole and durable, or not at all.

        It grows as `<path>.partial`; once digest and size fit it is synced and renamed. With
        `resume` that stays when writing ends early, and the next such call goes on behind what of
        it fits. Raises `LargeMessageCorrupt`, `TargetUnwritable`.
        """
        offload = self._origin.runtime.offload
        report = Reporter(progress, self.size)
        file = await offload(partial(PartialFile, Path(path), going_on=resume))
        try:
            async with aclosing(self._saved(file, resume=resume)) as lengths:
                async for length in lengths:
                    report.advance(length)
            await offload(file.finish)
        except BaseException as error:
            useless = not resume or isinstance(error, LargeMessageError)
            await offload(file.discard if useless else file.keep)
            raise
        report.finish()
        return file.target

    async def commit(self) -> None:
        """Receive it for good: commit the transaction that `receive` began for it."""
        if not self._owned or self._transaction is None:
            raise TransactionUsage(
                f"large message {self.sequence_id} has no transaction of its own to commit; it was"
                " peeked at, or commit the transaction that you gave"
            )
        await self._transaction.commit()

    async def close(self) -> None:
        """Give it back, unless it is committed: abort the transaction that `receive` began.

        Does nothing in a transaction of the caller's, and nothing the second time.
        """
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor.aclose()
        if self._is_open():
            assert self._transaction is not None
            await self._transaction.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._is_open():
            await self.commit()
        await self.close()

    def __del__(self) -> None:
        # A constructor that failed has set nothing.
        if getattr(self, "_owned", False) and self._is_open():
            assert self._transaction is not None
            self._transaction.leave()
            warnings.warn(
                f"{self!r} was dropped without being committed or closed, so it is given back;"
                " use it in a `with` block",
                ResourceWarning,
                stacklevel=2,
            )

    def _is_open(self) -> bool:
        """Whether a transaction of its own is waiting for its end."""
        transaction = self._transaction
        return (
            self._owned
            and transaction is not None
            and transaction.status is TransactionStatus.PENDING
        )

    def _layout(self) -> Layout:
        """Where the fragments lie; raises `LargeMessageCorrupt` if that cannot be told."""
        layout = Layout(self.size, self.said.control.fragment_size)
        if layout.fragment_size < 1 or len(self._parts) != layout.fragments:
            raise self._corrupt("its size does not fit its fragments")
        return layout

    async def _fragment_alone(self, number: int) -> memoryview:
        """Give one fragment, in memory of its own."""
        async with aclosing(self._checked(number, number)) as checked:
            piece, _ = await anext(checked)
        self._check_length(self._layout(), number, piece)
        return piece

    def _check_length(self, layout: Layout, number: int, piece: memoryview) -> None:
        if len(piece) != layout.length_of(number):
            raise self._corrupt(f"fragment {number} is not as long as it should be")

    def _pieces(self) -> AsyncGenerator[memoryview, None]:
        """The one pass that `read` and `readinto` share."""
        if self._cursor is None:
            self._cursor = self._verified()
        return self._cursor

    async def _verified(self) -> AsyncGenerator[memoryview, None]:
        """Read the body from its beginning; each piece is valid until the next is asked for."""
        runtime, connection, size = self._origin.runtime, self._origin.connection, 0
        async with (
            RollingDigest(runtime, behind=1, kind=self.digest_kind) as digest,
            aclosing(self._checked(1, len(self._parts))) as checked,
        ):
            async for piece, record in checked:
                size += len(piece)
                await digest.add(piece)
                yield piece
                await digest.settle()
                connection.give_back(record)
            if size != self.size or await digest.digest() != self.digest:
                raise self._corrupt("what came is not what was sent: size or digest does not fit")

    async def _checked(
        self, first: int, last: int
    ) -> AsyncGenerator[tuple[memoryview, memoryview], None]:
        """Give fragments, from number `first` to `last`, each once it fits its CRC32C.

        Each comes with its record, whose memory may be given back.
        """
        work = self._origin.runtime.work
        async with aclosing(self._records(self._parts[first - 1 : last])) as records:
            number = first
            async for part, record in records:
                try:
                    piece = await work(part.length, self._fragment, number, part, record)
                except LargeMessageCorrupt as error:
                    await self._look_at_damage(number, part, error)
                    raise
                yield piece, record
                number += 1

    async def _saved(self, file: PartialFile, *, resume: bool) -> AsyncGenerator[int, None]:
        """Have the body written into a file; give the length of each piece that is checked."""
        if resume:
            saving = Saving(
                self._origin, self._parts, self._layout(), self._checked, self.digest_kind
            )
            async with aclosing(save_on(saving, file)) as lengths:
                async for length in lengths:
                    if isinstance(length, int):
                        yield length
                    elif length != self.digest:
                        raise self._corrupt("what came is not what was sent")
            return
        origin = self._origin
        layout = Layout(self.size, self.said.control.fragment_size)
        if origin.connection.takes_files and can_be_copied(self._parts, layout):
            async with aclosing(self._copied(file)) as lengths:
                async for length in lengths:
                    yield length
            return
        async with aclosing(self._verified()) as pieces:
            async for piece in pieces:
                await origin.runtime.offload(file.write, piece)
                yield len(piece)

    async def _copied(self, file: PartialFile) -> AsyncGenerator[int, None]:
        """Have the queue manager write into the file, and check what is in it then."""
        origin, runtime = self._origin, self._origin.runtime
        filling = FileCopies(runtime, origin.connection, origin.queue, file)
        rooms = cycle([memoryview(bytearray(MESSAGE_BYTES_MAX)) for _ in range(PIECES_ALIVE)])
        layout = self._layout()
        copies = filling.copies(self._parts, layout)
        async with (
            RollingDigest(runtime, behind=PIECES_ALIVE - 1, kind=self.digest_kind) as digest,
            aclosing(copies),
        ):
            async for copy in copies:
                self._check_held()
                record = await filling.read_back(copy, next(rooms))
                try:
                    piece = await runtime.work(
                        len(record), self._fragment, copy.number, copy.part, record
                    )
                except LargeMessageCorrupt as error:
                    await self._look_at_damage(copy.number, copy.part, error)
                    raise
                self._check_length(layout, copy.number, piece)
                if piece.obj is not record.obj:
                    # What was copied is packed; its place in the file takes what it unpacks to.
                    await runtime.offload(file.put, piece, copy.at)
                await digest.add(piece)
                yield len(piece)
            if await digest.digest() != self.digest:
                raise self._corrupt("what came is not what was sent: its digest does not fit")

    async def _look_at_damage(self, number: int, part: PartAt, error: LargeMessageCorrupt) -> None:
        """A fragment that is damaged where it lies is a hole: raise `LargeMessageHole` for it.

        In a transaction of its own the message is rejected with that; in the caller's, and when
        nothing was taken, that is for the next receive to do. A fragment that is whole in its queue
        was damaged on the way: nothing happens, and it can be read again.
        """
        connection, transaction = self._origin.connection, self._transaction
        if transaction is None:
            return
        damaged = PartDamaged(self._origin.queue, part.lookup_id)
        if not (await connection.ask(damaged, Done)).count:
            return
        if self._repair:
            raise self._corrupt(
                f"fragment {number} is damaged where it was kept and was put aside; receive it once"
                " more, and its source is asked for it"
            ) from error
        if self._owned:
            _, joined = await transaction.join()
            header = self.said.header.lookup_id or 0
            await connection.ask(Reject(self._origin.queue, header, joined), Done)
            await transaction.commit()
        raise LargeMessageHole(
            f"large message {self.sequence_id} in {self._origin.queue_name!r} lacks fragment"
            f" {number}, which is damaged where it was kept and was put aside; its other parts are"
            " rejected",
            sequence_id=self.sequence_id,
            missing=[[number, number]],
        ) from error

    def _fragment(self, number: int, part: PartAt, record: memoryview) -> memoryview:
        try:
            header = checked_header(record, part.length, part.crc)
        except ProtocolError as error:
            raise self._corrupt(f"fragment {number}: {error}") from error
        mark = (header.part, header.sequence, header.app_specific)
        if mark != (Part.FRAGMENT, self._sequence, number):
            raise self._corrupt(f"another part stands where fragment {number} should be")
        body = record[HEADER_BYTES + header.properties_bytes :]
        if not header.fragment_count:
            return body
        most = min(FRAGMENT_BYTES_MAX, self.said.control.fragment_size)
        try:
            return memoryview(unpacked(body, header.fragment_count, most))
        except ProtocolError as error:
            raise self._corrupt(f"fragment {number}: {error}") from error

    async def _records(
        self, parts: list[PartAt]
    ) -> AsyncGenerator[tuple[PartAt, memoryview], None]:
        """Ask for the records of fragments, a few ahead of the one in hand."""
        waiting: deque[tuple[PartAt, Pending]] = deque()
        ahead = 0
        for part in parts:
            while len(waiting) >= _AHEAD_PARTS_MAX or (
                len(waiting) > _AHEAD_PARTS_MIN and ahead >= _AHEAD_BYTES
            ):
                ahead -= waiting[0][0].length
                yield await self._answered(*waiting.popleft())
            waiting.append((part, await self._ask_for(part)))
            ahead += part.length
        while waiting:
            yield await self._answered(*waiting.popleft())

    async def _ask_for(self, part: PartAt) -> Pending:
        self._check_held()
        return await self._origin.connection.start(
            ReadPart(self._origin.queue, part.lookup_id, 0, part.length)
        )

    async def _answered(self, part: PartAt, pending: Pending) -> tuple[PartAt, memoryview]:
        frame = await self._origin.connection.wait(pending)
        if not isinstance(frame.head, Range):
            raise ProtocolError(f"asked for a range, got {type(frame.head).__name__}")
        return part, frame.body

    def _check_held(self) -> None:
        transaction = self._transaction
        if transaction is not None and transaction.status is not TransactionStatus.PENDING:
            raise TransactionSequence(
                f"large message {self.sequence_id} can be read only while its transaction is open;"
                f" it is {transaction.status}",
                transaction_id=transaction.id,
            )

    def _corrupt(self, what: str) -> LargeMessageCorrupt:
        return LargeMessageCorrupt(
            f"large message {self.sequence_id} is corrupt: {what}", sequence_id=self.sequence_id
        )
