"""The fragments of one large message, asked for a few ahead of the one in hand, each checked.

They come from the heap file through the kernel. Nobody is given a byte of a record before the whole
record fits its CRC32C and stands in its own place. One that does not is looked at by the queue
manager: if it is damaged where it lies, the message has a hole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from dray.client.awaited.large_message_file import Layout
from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import checked_header
from dray.client.connections.connection import Connection
from dray.client.connections.runtime import Runtime
from dray.client.connections.session import Pending
from dray.errors import LargeMessageCorrupt, LargeMessageHole, ProtocolError, TransactionSequence
from dray.forks import check_process, is_here, this_process
from dray.large.compression import unpacked
from dray.model.classes import Part, TransactionStatus
from dray.model.limits import FRAGMENT_BYTES_MAX, MIB
from dray.wire.frames import Done
from dray.wire.large_frames import PartAt, PartDamaged, Range, ReadPart
from dray.wire.message_frames import Reject
from dray.wire.record import HEADER_BYTES, RecordHeader, read_header

_AHEAD_PARTS_MIN = 2
_AHEAD_PARTS_MAX = 64
_AHEAD_BYTES = MIB
"""Short parts are asked for more at a time, so that a round trip is not paid for each."""


class Origin(NamedTuple):
    """The place that a large message is read from."""

    runtime: Runtime
    connection: Connection
    queue: int
    queue_name: str
    sequence_id: str


class Held(NamedTuple):
    """The hold on the parts: its transaction, and what becomes of damaged ones."""

    transaction: Transaction
    header: int
    owned: bool
    """Whether the transaction ends with the message."""
    repair: bool
    """Whether a damaged part may be asked for again."""


class Fragments:
    """Fetches and checks; `sequence` is the number of the message's header."""

    def __init__(self, origin: Origin, parts: list[PartAt], sequence: int, layout: Layout) -> None:
        self.origin = origin
        self.parts = parts
        self.held: Held | None = None
        """None for a message that is only looked at."""
        self.here: list[memoryview] = []
        """The records of all fragments, if they came with the message."""
        self._sequence = sequence
        self._layout = layout
        self._process = this_process()

    def __len__(self) -> int:
        """The number of fragments."""
        return len(self.parts)

    @property
    def layout(self) -> Layout:
        """Their places in the body; raises `LargeMessageCorrupt` if they cannot be told."""
        layout = self._layout
        if layout.fragment_size < 1 or len(self.parts) != layout.fragments:
            raise self.corrupt("its size does not fit its fragments")
        return layout

    async def checked(
        self, first: int, last: int
    ) -> AsyncGenerator[tuple[memoryview, memoryview], None]:
        """Give fragments, from number `first` to `last`, each once it fits its CRC32C.

        Each comes with its record, whose memory may be given back.
        """
        async with aclosing(self._records(self.parts[first - 1 : last])) as records:
            number = first
            async for part, record in records:
                yield await self.piece_of(number, part, record), record
                number += 1

    async def alone(self, number: int) -> memoryview:
        """Give one fragment, in memory of its own."""
        async with aclosing(self.checked(number, number)) as checked:
            piece, _ = await anext(checked)
        self.check_length(number, piece)
        return piece

    async def piece_of(self, number: int, part: PartAt, record: memoryview) -> memoryview:
        """Check a record and give the fragment in it, unpacked.

        Raises `LargeMessageCorrupt`, and `LargeMessageHole` if it is damaged where it lies.
        """
        try:
            # The CRC32C of 4 MB takes less time than the way to a thread and back.
            body, size = self._checked(number, part, record)
            if not size:
                return body
            return await self.origin.runtime.work(size, self._unpacked, number, body, size)
        except LargeMessageCorrupt as error:
            await self._look_at_damage(number, part, error)
            raise

    def stands_plain(self, number: int, part: PartAt, before: bytes) -> bool:
        """Whether a record that begins so is that fragment, not packed, and the rest is its body.

        Nothing of it has been checked: it is so if the CRC32C of the record fits.
        """
        try:
            header = read_header(before)
        except ProtocolError:
            return False
        return (
            self._marks(header, number)
            and header.record_bytes == part.length
            and HEADER_BYTES + header.properties_bytes == len(before)
            and not header.fragment_count
        )

    def check_length(self, number: int, piece: memoryview) -> None:
        """Raise `LargeMessageCorrupt` for a fragment that does not fill its place in the body."""
        if len(piece) != self.layout.length_of(number):
            raise self.corrupt(f"fragment {number} is not as long as it should be")

    def check_held(self) -> None:
        """Raise `TransactionSequence` once the transaction that holds them has ended.

        Raises `WrongProcess` in a process forked from the one that received the message.
        """
        self.check_here()
        if self.held is None:
            return
        transaction = self.held.transaction
        if transaction.status is not TransactionStatus.PENDING:
            raise TransactionSequence(
                f"large message {self.origin.sequence_id} can be read only while its transaction is"
                f" open; it is {transaction.status}",
                transaction_id=transaction.id,
            )

    @property
    def is_here(self) -> bool:
        """Whether the message was received in this process."""
        return is_here(self._process)

    def check_here(self) -> None:
        """Raise `WrongProcess` in a process forked from the one that received the message."""
        check_process(
            self._process,
            f"large message {self.origin.sequence_id}, as it was received,",
            "receive another one in this process",
        )

    def corrupt(self, what: str) -> LargeMessageCorrupt:
        """The error for a message that differs from what was sent."""
        sequence_id = self.origin.sequence_id
        return LargeMessageCorrupt(
            f"large message {sequence_id} is corrupt: {what}", sequence_id=sequence_id
        )

    def _checked(self, number: int, part: PartAt, record: memoryview) -> tuple[memoryview, int]:
        """The body of a record that fits its CRC32C, and its size unpacked; 0 if it lies plain."""
        try:
            header = checked_header(record, part.length, part.crc)
        except ProtocolError as error:
            raise self.corrupt(f"fragment {number}: {error}") from error
        if not self._marks(header, number):
            raise self.corrupt(f"another part stands where fragment {number} should be")
        return record[HEADER_BYTES + header.properties_bytes :], header.fragment_count

    def _unpacked(self, number: int, body: memoryview, size: int) -> memoryview:
        most = min(FRAGMENT_BYTES_MAX, self._layout.fragment_size)
        try:
            return memoryview(unpacked(body, size, most))
        except ProtocolError as error:
            raise self.corrupt(f"fragment {number}: {error}") from error

    def _marks(self, header: RecordHeader, number: int) -> bool:
        mark = (header.part, header.sequence, header.app_specific)
        return mark == (Part.FRAGMENT, self._sequence, number)

    async def _look_at_damage(self, number: int, part: PartAt, error: LargeMessageCorrupt) -> None:
        """A fragment that is damaged where it lies is a hole: raise `LargeMessageHole` for it.

        In a transaction of its own the message is rejected with that; in the caller's, and when
        nothing was taken, that is for the next receive to do. A fragment that is whole in its queue
        was damaged on the way: nothing happens, and it can be read again.
        """
        origin, held = self.origin, self.held
        if held is None:
            return
        damaged = PartDamaged(origin.queue, part.lookup_id)
        if not (await origin.connection.ask(damaged, Done)).count:
            return
        if held.repair:
            raise self.corrupt(
                f"fragment {number} was damaged in the store and was put aside; receive it once"
                " more, and the queue manager asks the source for it"
            ) from error
        if held.owned:
            _, joined = await held.transaction.join()
            await origin.connection.ask(Reject(origin.queue, held.header, joined), Done)
            await held.transaction.commit()
        raise LargeMessageHole(
            f"fragment {number} of large message {origin.sequence_id} in {origin.queue_name!r}"
            " was damaged in the store and was moved to the quarantine; the other parts are"
            " rejected",
            sequence_id=origin.sequence_id,
            missing=[[number, number]],
        ) from error

    async def _records(
        self, parts: list[PartAt]
    ) -> AsyncGenerator[tuple[PartAt, memoryview], None]:
        """Ask for the records of fragments, a few ahead of the one in hand."""
        if self.here:
            self.check_held()
            for part, record in zip(self.parts, self.here, strict=True):
                if part in parts:
                    yield part, record
            return
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
        self.check_held()
        return await self.origin.connection.start(
            ReadPart(self.origin.queue, part.lookup_id, 0, part.length)
        )

    async def _answered(self, part: PartAt, pending: Pending) -> tuple[PartAt, memoryview]:
        frame = await self.origin.connection.wait(pending)
        if not isinstance(frame.head, Range):
            raise ProtocolError(f"asked for a range, got {type(frame.head).__name__}")
        return part, frame.body
