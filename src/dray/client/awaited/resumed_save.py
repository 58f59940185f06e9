"""Saving a large message where an earlier attempt has ended: what is there is checked, not read.

Of each fragment that lies in the partial file, the head of its record is fetched: together with the
bytes in the file it must fit the record's CRC32C. So the beginning of the file is that of this very
message, fragment by fragment, or is written anew from the first that does not fit. The digest of
the whole is taken over all of it, as ever.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import crc32c

from dray.client.digest import RollingDigest
from dray.errors import ProtocolError
from dray.model.limits import MESSAGE_BYTES_MAX
from dray.wire.frames import PartAt, Range, ReadPart
from dray.wire.record import HEADER_BYTES

if TYPE_CHECKING:
    from dray.client.awaited.large_message import Origin
    from dray.client.awaited.large_message_file import Layout
    from dray.client.partial_file import PartialFile

Checked = Callable[[int, int], AsyncGenerator[tuple[memoryview, memoryview], None]]
"""Gives fragments from a number to another, each checked, with the memory of its record."""


class Saving(NamedTuple):
    """A large message that is being saved."""

    origin: Origin
    parts: list[PartAt]
    layout: Layout
    checked: Checked
    digest_kind: str


async def save_on(saving: Saving, file: PartialFile) -> AsyncGenerator[int | bytes, None]:
    """Give the length of each fragment that is there or was written; last, the digest of all."""
    runtime, layout = saving.origin.runtime, saving.layout
    async with RollingDigest(runtime, behind=0, kind=saving.digest_kind) as digest:
        room = memoryview(bytearray(min(MESSAGE_BYTES_MAX, max(1, layout.fragment_size))))
        there = await runtime.offload(file.length)
        number, end = 1, 0
        while number <= layout.fragments and there >= end + layout.length_of(number):
            piece = room[: layout.length_of(number)]
            await runtime.offload(file.read_back, piece, end)
            if not await _fits(saving, saving.parts[number - 1], piece):
                break
            await digest.add(piece)
            await digest.settle()
            number, end = number + 1, end + len(piece)
            yield len(piece)
        await runtime.offload(file.cut, end)
        if number <= layout.fragments:
            async with aclosing(saving.checked(number, layout.fragments)) as checked:
                async for piece, record in checked:
                    await runtime.offload(file.write, piece)
                    await digest.add(piece)
                    await digest.settle()
                    saving.origin.connection.give_back(record)
                    yield len(piece)
        yield await digest.digest()


async def _fits(saving: Saving, part: PartAt, piece: memoryview) -> bool:
    """Whether bytes in the file are those of a fragment; a compressed one is fetched again."""
    head_bytes = part.length - len(piece)
    if head_bytes < HEADER_BYTES:
        return False
    connection = saving.origin.connection
    asked = ReadPart(saving.origin.queue, part.lookup_id, 0, head_bytes)
    frame = await connection.call(asked, Range)
    if len(frame.body) != head_bytes:
        raise ProtocolError("a range came with another length than was asked for")
    crc = crc32c.crc32c(piece, crc32c.crc32c(frame.body))
    connection.give_back(frame.body)
    return crc == part.crc
