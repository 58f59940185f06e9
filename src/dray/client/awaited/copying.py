"""Receives a large message into a file that the queue manager writes, on a Unix socket.

The receiver lends its file with one request for each fragment; the queue manager copies the
fragment's bytes to their place in the kernel and answers with what of the record comes before them.
The receiver reads back what is in its file now: that has to fit the record's CRC32C and the digest
of the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import NamedTuple

from dray.checksum import crc32c
from dray.client.awaited.fragments import Origin
from dray.client.awaited.large_message_file import Layout
from dray.client.connections.session import Pending
from dray.client.files.digest import RollingDigest
from dray.client.files.partial_file import PartialFile
from dray.errors import ProtocolError, TargetUnwritable
from dray.model.limits import KIB
from dray.wire.file_frames import Copied, CopyPart
from dray.wire.large_frames import PartAt
from dray.wire.record import HEADER_BYTES

COPIED_BYTES_MIN = 256 * KIB
"""Less comes through the socket in the time that lending takes."""
_AHEAD = 6
"""Fragments asked for: two that the queue manager copies, and some to go on with, on either side,
while the other one has the processor (docs/decisions/0148)."""
_PIECE_BYTES = 256 * KIB
"""Read back, checked and taken into the digest while it lies in the processor's own cache
(docs/decisions/0149)."""


class Copy(NamedTuple):
    """One fragment that is in the file: its number, its part, where and how long its body is."""

    number: int
    part: PartAt
    at: int
    length: int
    before: bytes
    """Bytes of its record before the body."""


class FileCopies:
    """Asks for the fragments of one large message, in order, into one file."""

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
