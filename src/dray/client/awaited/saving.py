"""A large message on its way into a file: what lies there, what is lent, what is fetched.

    there already     checked, not fetched: the head of each record and the bytes in the file must
                      fit the record's CRC32C. From the first that does not fit, all is written anew
    the rest, lent    the queue manager copies into the file, and what is in it then is checked
    or fetched        each fragment is checked, then written

So the beginning of a file that is gone on with is that of this very message, fragment by fragment,
whatever it was before. The digest of the whole is taken over all of it, as ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from dray.checksum import crc32c
from dray.client.awaited.fragments import Fragments, Origin
from dray.client.awaited.large_message_file import Layout
from dray.client.connections.session import Pending
from dray.client.files.digest import RollingDigest
from dray.client.files.partial_file import PartialFile
from dray.client.files.sources import PIECES_ALIVE, buffers
from dray.errors import ProtocolError, TargetUnwritable
from dray.large.digests import QUICK
from dray.model.limits import KIB, MESSAGE_BYTES_MAX
from dray.wire.file_frames import Copied, CopyPart
from dray.wire.large_frames import PartAt, Range, ReadPart
from dray.wire.record import HEADER_BYTES

COPIED_BYTES_MIN = 256 * KIB
"""Less comes through the socket in the time that lending takes."""
_AHEAD = 6
"""Fragments asked for: two that the queue manager copies, and some to go on with, on either side,
while the other one has the processor (docs/decisions/0148)."""
_PIECE_BYTES = 256 * KIB
"""Read back, checked and taken into the digest while it lies in the processor's own cache
(docs/decisions/0149)."""


class Saving:
    """Writes one large message into one file, from its beginning or from where that ends."""

    def __init__(self, fragments: Fragments, file: PartialFile, digest_kind: str) -> None:
        self._fragments = fragments
        self._file = file
        self._runtime = fragments.origin.runtime
        self._connection = fragments.origin.connection
        self._layout = fragments.layout
        self._digest_kind = digest_kind
        self.digest = b""
        """Digest of the whole file, once `lengths` has ended."""

    async def lengths(self, *, resume: bool) -> AsyncGenerator[int, None]:
        """Fill the file; give the length of each fragment that is there.

        Raises `TargetUnwritable`, and for what is not as it was sent `LargeMessageCorrupt` or
        `LargeMessageHole`.
        """
        first = 1
        async with RollingDigest(
            self._runtime, behind=PIECES_ALIVE - 1, kind=self._digest_kind
        ) as digest:
            if resume:
                async with aclosing(self._there(digest)) as there:
                    async for length in there:
                        first += 1
                        yield length
            if first <= len(self._fragments):
                lent = self._connection.takes_files and can_be_copied(
                    self._fragments.parts, self._layout
                )
                rest = self._copied(digest, first) if lent else self._fetched(digest, first)
                async with aclosing(rest):
                    async for length in rest:
                        yield length
            self.digest = await digest.digest()

    async def _there(self, digest: RollingDigest) -> AsyncGenerator[int, None]:
        """Give the length of each fragment that lies in the file; cut off what does not fit."""
        offload, layout, parts = self._runtime.offload, self._layout, self._fragments.parts
        room = memoryview(bytearray(min(MESSAGE_BYTES_MAX, layout.fragment_size)))
        there = await offload(self._file.length)
        end = 0
        for number, part in enumerate(parts, 1):
            length = layout.length_of(number)
            if there < end + length:
                break
            piece = room[:length]
            await offload(self._file.read_back, piece, end)
            if not await self._fits(part, piece):
                break
            await digest.add(piece)
            await digest.settle()
            end += length
            yield length
        await offload(self._file.cut, end)

    async def _fits(self, part: PartAt, piece: memoryview) -> bool:
        """Whether bytes in the file are those of a fragment; a compressed one is fetched again."""
        head_bytes = part.length - len(piece)
        if head_bytes < HEADER_BYTES:
            return False
        asked = ReadPart(self._fragments.origin.queue, part.lookup_id, 0, head_bytes)
        frame = await self._connection.call(asked, Range)
        if len(frame.body) != head_bytes:
            raise ProtocolError(
                "the queue manager sent a range of another length than the client asked for"
            )
        crc = crc32c(piece, crc32c(frame.body))
        self._connection.give_back(frame.body)
        return crc == part.crc

    async def _fetched(self, digest: RollingDigest, first: int) -> AsyncGenerator[int, None]:
        """Fetch fragments from number `first` on, and write them behind what is there."""
        fragments, offload = self._fragments, self._runtime.offload
        async with aclosing(fragments.checked(first, len(fragments))) as checked:
            number = first
            async for piece, record in checked:
                fragments.check_length(number, piece)
                await digest.add(piece)
                await offload(self._file.write, piece)
                await digest.settle()
                self._connection.give_back(record)
                number += 1
                yield len(piece)

    async def _copied(self, digest: RollingDigest, first: int) -> AsyncGenerator[int, None]:
        """Have the queue manager write into the file, and check what is in it then."""
        fragments = self._fragments
        filling = FileCopies(fragments.origin, self._file)
        rooms = buffers(MESSAGE_BYTES_MAX)
        async with aclosing(filling.copies(fragments.parts, self._layout, first)) as copies:
            async for copy in copies:
                fragments.check_held()
                if await self._stands_there(filling, copy, digest):
                    yield copy.length
                    continue
                record = await filling.read_back(copy, next(rooms))
                piece = await fragments.piece_of(copy.number, copy.part, record)
                fragments.check_length(copy.number, piece)
                if piece.obj is not record.obj:
                    # The copied bytes are packed; the file has room for the unpacked ones.
                    await self._runtime.offload(self._file.put, piece, copy.at)
                await digest.add(piece)
                yield len(piece)

    async def _stands_there(self, filling: FileCopies, copy: Copy, digest: RollingDigest) -> bool:
        """Take a fragment into the digest as it is read back, if that is quick; whether it fits.

        If a fragment does not fit, the digest has taken in too much and cannot fit either.
        """
        number, part, before = copy.number, copy.part, copy.before
        if self._digest_kind not in QUICK:
            return False
        if not self._fragments.stands_plain(number, part, before):
            return False
        return await filling.taken_in(copy, digest) == part.crc


class Copy(NamedTuple):
    """One fragment that is in the file: its number, its part, where and how long its body is."""

    number: int
    part: PartAt
    at: int
    length: int
    before: bytes
    """Bytes of its record before the body."""


class FileCopies:
    """Has the queue manager copy fragments into a file, in order, on a Unix socket.

    The receiver lends its file with one request for each fragment; the queue manager copies the
    fragment's bytes to their place in the kernel and answers with what of the record comes before
    them. The receiver reads back what is in its file now: that has to fit the record's CRC32C and
    the digest of the whole.
    """

    def __init__(self, origin: Origin, file: PartialFile) -> None:
        """Ask where the message is read from."""
        self._runtime = origin.runtime
        self._connection = origin.connection
        self._queue = origin.queue
        self._file = file
        self._piece = memoryview(bytearray(_PIECE_BYTES))

    async def copies(
        self, parts: list[PartAt], layout: Layout, first: int
    ) -> AsyncGenerator[Copy, None]:
        """Give each fragment from number `first` on when it is in the file.

        Raises `TargetUnwritable`.
        """
        waiting: deque[tuple[Copy, Pending]] = deque()
        for number, part in enumerate(parts[first - 1 :], first):
            if len(waiting) == _AHEAD:
                yield await self._copied(*waiting.popleft())
            at = (number - 1) * layout.fragment_size
            copy = Copy(number, part, at, layout.length_of(number), b"")
            waiting.append((copy, await self._ask_for(copy)))
        while waiting:
            yield await self._copied(*waiting.popleft())

    async def read_back(self, copy: Copy, room: memoryview) -> memoryview:
        """Put together the record of a fragment from what came before it and what the file has."""
        start = len(copy.before)
        record = room[: start + copy.length]
        record[:start] = copy.before
        await self._runtime.offload(self._file.read_back, record[start:], copy.at)
        return record

    async def taken_in(self, copy: Copy, digest: RollingDigest) -> int:
        """Take what the file has of a fragment into a digest; give the CRC32C of its record."""
        await digest.settle()
        return await self._runtime.offload(self._take_in, copy, digest)

    def _take_in(self, copy: Copy, digest: RollingDigest) -> int:
        crc, end = crc32c(copy.before), copy.at + copy.length
        for start in range(copy.at, end, _PIECE_BYTES):
            piece = self._piece[: end - start]
            self._file.read_back(piece, start)
            crc = crc32c(piece, crc)
            digest.take_in(piece)
        return crc

    async def _ask_for(self, copy: Copy) -> Pending:
        part = copy.part
        request = CopyPart(
            self._queue, part.lookup_id, part.length - copy.length, copy.length, copy.at
        )
        return await self._connection.start(request, file=self._file.descriptor)

    async def _copied(self, copy: Copy, pending: Pending) -> Copy:
        try:
            frame = await self._connection.wait(pending)
        except TargetUnwritable as error:
            raise self._file.spoilt(str(error.fields.get("reason", error))) from error
        if not isinstance(frame.head, Copied):
            raise ProtocolError(f"the client asked for a copy and got {type(frame.head).__name__}")
        await self._runtime.offload(self._file.grown, copy.length)
        return copy._replace(before=bytes(frame.body))


def can_be_copied(parts: list[PartAt], layout: Layout) -> bool:
    """Whether every fragment stands in its record as it was, so that its place can be told."""
    if min(layout.size, layout.fragment_size) < COPIED_BYTES_MIN or len(parts) != layout.fragments:
        return False
    return all(
        part.length >= layout.length_of(number) + HEADER_BYTES
        for number, part in enumerate(parts, 1)
    )
