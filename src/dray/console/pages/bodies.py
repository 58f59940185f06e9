"""Bodies of messages: their first bytes for a preview, and all of them for a download."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import dray.aio
from dray.aio import LargeMessage, Manager
from dray.client.awaited.large_message import verified_pieces
from dray.console.http.bodies import Piece
from dray.console.pages.previews import (
    PARQUET,
    PREVIEW_BYTES_MAX,
    Preview,
    parquet_of,
    preview_of,
)
from dray.model.queued import QueuedMessage


async def head_of(manager: Manager, found: QueuedMessage) -> bytes:
    """The first bytes of a body."""
    async with opened(manager, found) as body:
        return await body.range(0, PREVIEW_BYTES_MAX)


async def preview(manager: Manager, found: QueuedMessage, turns: ParquetTurns) -> Preview:
    """A preview of the body of a message."""
    async with opened(manager, found) as body:
        head = await body.range(0, PREVIEW_BYTES_MAX)
        if head.startswith(PARQUET) and (rows := await turns.rows(body)) is not None:
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


class ParquetTurns:
    """Previews of Parquet files, one after another: each has a process of its own."""

    def __init__(self) -> None:
        """Begin without any."""
        self._turn = asyncio.Lock()

    async def rows(self, body: _OpenBody) -> Preview | None:
        """The first rows of a body; None if it has none, or they need too much."""
        loop = asyncio.get_running_loop()

        def given(offset: int, length: int) -> bytes:
            return asyncio.run_coroutine_threadsafe(body.range(offset, length), loop).result()

        async with self._turn:
            return await asyncio.to_thread(parquet_of, body.size, given)

    async def close(self) -> None:
        """Nothing is open."""


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
