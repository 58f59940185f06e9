"""Bodies of messages: their first bytes for a preview, and all of them for a download."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import dray.aio
from dray.client.awaited.large_message import verified_pieces
from dray.console.pages.previews import (
    PARQUET,
    PARQUET_BYTES_MAX,
    PREVIEW_BYTES_MAX,
    Preview,
    parquet_of,
    preview_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dray.aio import LargeMessage, Manager
    from dray.console.http.bodies import Piece
    from dray.model.queued import QueuedMessage


async def head_of(manager: Manager, found: QueuedMessage) -> bytes:
    """The first bytes of a body."""
    async with opened(manager, found) as body:
        return await body.range(0, PREVIEW_BYTES_MAX)


async def preview(manager: Manager, found: QueuedMessage) -> Preview:
    """A preview of the body of a message."""
    async with opened(manager, found) as body:
        head = await body.range(0, PREVIEW_BYTES_MAX)
        if head.startswith(PARQUET):
            file = _ReadFromThread(body, asyncio.get_running_loop())
            rows = await asyncio.to_thread(parquet_of, file)  # type: ignore[arg-type]
            if rows is not None:
                return rows
        return preview_of(head, body.size, found.label)


@asynccontextmanager
async def opened(manager: Manager, found: QueuedMessage) -> AsyncIterator[_OpenBody]:
    """The body of a message, which stays in its queue. Raises `MessageNotFound` if it is held."""
    queue = manager.queue(found.queue, raw=True)
    if not found.parts:
        message = await queue.peek_by_lookup_id(found.lookup_id)
        yield _PlainBody(bytes(message.body))
        return
    async with dray.aio.LargeMessageQueue(queue).peek_by_id(found.id) as large:
        yield _LargeBody(large)


class _OpenBody:
    """A body that can be read by range, or from its beginning to its end."""

    size = 0

    async def range(self, offset: int, length: int) -> bytes:
        raise NotImplementedError

    def pieces(self) -> AsyncGenerator[Piece, None]:
        raise NotImplementedError


class _PlainBody(_OpenBody):
    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    async def range(self, offset: int, length: int) -> bytes:
        return self._body[offset : offset + length]

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        yield self._body


class _LargeBody(_OpenBody):
    def __init__(self, message: LargeMessage) -> None:
        self._message = message
        self.size = message.size

    async def range(self, offset: int, length: int) -> bytes:
        return await self._message.read_range(offset, min(length, max(0, self.size - offset)))

    def pieces(self) -> AsyncGenerator[Piece, None]:
        return verified_pieces(self._message)


class _ReadFromThread(io.RawIOBase):
    """A body as a file for a library that runs in a thread; it reads so many bytes and no more."""

    def __init__(self, body: _OpenBody, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._body, self._loop = body, loop
        self._at = self._read = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._body.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        length = max(0, min(len(buffer), self._body.size - self._at))
        self._read += length
        if self._read > PARQUET_BYTES_MAX:
            raise OSError("the first rows of this file are too long for a preview")
        if not length:
            return 0
        job = partial(self._body.range, self._at, length)
        piece = asyncio.run_coroutine_threadsafe(job(), self._loop).result()
        memoryview(buffer).cast("B")[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
