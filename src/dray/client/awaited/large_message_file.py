"""A large message as a seekable file.

Fragments are of one size but for the last, so an offset tells the fragment. It is fetched whole,
since its record's CRC32C vouches for all of it, and the last one is kept: a file holds one fragment
in memory. Such reads are checked fragment by fragment; only readers of the whole body check the
digest.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from dray.client.calls.public_calls import public
from dray.model.arguments import no_sense


class Layout(NamedTuple):
    """The places of the fragments in a body: their number is counted from 1."""

    size: int
    fragment_size: int

    @property
    def fragments(self) -> int:
        """The number of fragments; an empty body has one."""
        return max(1, -(-self.size // self.fragment_size))

    def place_of(self, offset: int) -> tuple[int, int]:
        """The fragment that has the byte at `offset`, and the offset in it."""
        before, within = divmod(offset, self.fragment_size)
        return before + 1, within

    def length_of(self, number: int) -> int:
        """The bytes of a fragment."""
        return min(self.fragment_size, self.size - (number - 1) * self.fragment_size)

    def clipped(self, offset: int, length: int) -> int:
        """The number of `length` bytes from `offset` that there are; all that are left if below 0.

        Raises `InvalidArgument` for an offset below 0.
        """
        if offset < 0:
            raise no_sense("offset", "a whole number from 0 on", offset)
        left = max(0, self.size - offset)
        return left if length < 0 else min(length, left)


@public(made_by="LargeMessage.open")
class LargeMessageFile:
    """Reads at a position of its own. For one task at a time: open another one for another."""

    def __init__(
        self,
        layout: Layout,
        fetch: Callable[[int], Awaitable[memoryview]],
        check: Callable[[], None],
    ) -> None:
        """Begin at the first byte. `fetch` gives a fragment, `check` raises if none may be read."""
        self._layout = layout
        self._fetch = fetch
        self._check = check
        self._position = 0
        self._kept: tuple[int, memoryview] = (0, memoryview(b""))
        self.closed = False

    async def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, by default all that are left; b"" at the end.

        Raises `LargeMessageCorrupt` if the CRC32C of a fragment is wrong, and `TransactionSequence`
        once the transaction of the message has ended.
        """
        self.check_usable()
        room = bytearray(self._layout.clipped(self._position, size))
        await self.readinto(room)
        return bytes(room)

    async def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer; fewer bytes only at the end, then 0. Raises as `read` does."""
        self.check_usable()
        room = memoryview(buffer).cast("B")
        room = room[: self._layout.clipped(self._position, len(room))]
        have = 0
        while have < len(room):
            number, within = self._layout.place_of(self._position)
            if self._kept[0] != number:
                self._kept = (number, await self._fetch(number))
            piece = self._kept[1][within : within + len(room) - have]
            room[have : have + len(piece)] = piece
            have += len(piece)
            self._position += len(piece)
        return have

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset from the beginning, the current position or the end; return it."""
        self.check_usable()
        origins = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._layout.size}
        if whence not in origins:
            raise no_sense("whence", "os.SEEK_SET, os.SEEK_CUR or os.SEEK_END", whence)
        position = origins[whence] + offset
        if position < 0:
            raise no_sense("offset", "one that leads to byte 0 or behind it", offset)
        self._position = position
        return position

    def tell(self) -> int:
        """Position of the next byte to read."""
        self.check_usable()
        return self._position

    def close(self) -> None:
        """Free the fragment in memory. The message stays as it is."""
        self.closed = True
        self._kept = (0, memoryview(b""))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def check_usable(self) -> None:
        """Raise what reading would raise: it is closed, or its transaction has ended."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        self._check()
