"""A bad line between real processes: a proxy on loopback that delays, stalls, cuts and is narrow.

What goes in comes out `delay_s` later, in each direction. A long line is slow to answer, not
narrow: as many bytes go in at a time as one likes, unless `rate_bytes_s` says how many it takes in
a second. A narrow line has a short queue at its entrance (about `NARROW_QUEUE_BYTES`), as a good
router has: what does not fit there waits in the sender's socket, and that is the sender's affair.
`stall` lets nothing through for a while and says nothing, one way or both; `stall_behind` lets some
bytes through first; `cut` resets every connection, with whatever was under way. It runs on a thread
and an event loop of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

CHUNK_BYTES = 256 << 10
CHUNKS_UNDER_WAY = 512
NARROW_QUEUE_BYTES = 64 << 10
NARROW_CHUNK_BYTES = 16 << 10
NARROW_LATE_S = 0.005
_STREAM_BYTES = 1 << 20
_ENDS_WITHIN_S = 60.0

Outward, Inward = 0, 1


class BadLine:
    """Listens on a loopback port and leads to another."""

    def __init__(
        self, to_port: int, delay_s: float = 0.0, rate_bytes_s: float | None = None
    ) -> None:
        """Lead to `to_port`; `delay_s` each way, and at most `rate_bytes_s` each way."""
        self.port = 0
        self.cuts = self.stalls = 0
        self._to_port = to_port
        self._delay_s = delay_s
        self._rate_bytes_s = rate_bytes_s
        narrow = rate_bytes_s is not None
        self._chunk_bytes = NARROW_CHUNK_BYTES if narrow else CHUNK_BYTES
        # asyncio reads on until it holds twice its limit.
        self._stream_bytes = NARROW_QUEUE_BYTES // 4 if narrow else _STREAM_BYTES
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bad line")
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = (asyncio.Event(), asyncio.Event())
        self._outward_left: int | None = None

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDS_WITHIN_S)
        self._loop.close()

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += 1
        self._do(self._cut())

    def stall(self, seconds: float, *, ways: tuple[int, ...] = (Outward, Inward)) -> None:
        """Let nothing through for a while; comes back at once."""
        self.stalls += 1
        self._do(self._stall(seconds, ways))

    def stall_behind(self, count: int) -> None:
        """Let `count` bytes more through outwards, then nothing more."""
        self.stalls += 1
        self._do(self._stall_behind(count))

    @property
    def stands_still(self) -> bool:
        """Whether nothing goes through outwards."""
        return not self._open[Outward].is_set()

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(_ENDS_WITHIN_S)

    async def _listen(self) -> None:
        for each in self._open:
            each.set()
        self._server = await asyncio.start_server(
            self._accepted, sock=self._listening(), limit=self._stream_bytes
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _listening(self) -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._make_narrow(sock)
        sock.bind(("127.0.0.1", self.port))
        return sock

    def _make_narrow(self, sock: socket.socket) -> None:
        """Keep the kernel from queueing megabytes in front of a narrow line; before connecting."""
        if self._rate_bytes_s is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_QUEUE_BYTES // 2)

    async def _lead(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        sock.setblocking(False)
        self._make_narrow(sock)
        try:
            await self._loop.sock_connect(sock, ("127.0.0.1", self._to_port))
        except BaseException:
            sock.close()
            raise
        return await asyncio.open_connection(sock=sock, limit=self._stream_bytes)

    async def _accepted(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._writers.add(back)
        try:
            far, forth = await self._lead()
        except OSError:
            # Nobody listens there just now.
            self._drop(back)
            return
        self._writers.add(forth)
        for reader, writer, way in ((near, forth, Outward), (far, back, Inward)):
            under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)
            self._begin(self._take(reader, under_way))
            self._begin(self._give(under_way, writer, way))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(
        self, reader: asyncio.StreamReader, under_way: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        data = b"something"
        free_at = 0.0
        while data:
            try:
                data = await reader.read(self._chunk_bytes)
            except OSError:
                # A reset ends a connection like an orderly end does.
                data = b""
            if self._rate_bytes_s is not None:
                # The line is busy with what went before; a late wake-up is made good for.
                idle_since = self._loop.time() - NARROW_LATE_S
                free_at = max(free_at, idle_since) + len(data) / self._rate_bytes_s
                await asyncio.sleep(free_at - self._loop.time())
            await under_way.put((self._loop.time() + self._delay_s, data))

    async def _give(
        self,
        under_way: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        way: int,
    ) -> None:
        while True:
            due, data = await under_way.get()
            if due > self._loop.time():
                await asyncio.sleep(due - self._loop.time())
            await self._open[way].wait()
            if not data or writer.transport.is_closing():
                self._drop(writer)
                return
            rest = data[self._allowed(len(data), way) :]
            writer.write(data[: len(data) - len(rest)])
            with suppress(OSError):
                # If the other end is gone, the next turn finds the transport closing.
                await writer.drain()
            if rest:
                await self._open[way].wait()
                writer.write(rest)

    def _allowed(self, count: int, way: int) -> int:
        """How many of so many bytes go through before a stall begins."""
        if way == Inward or self._outward_left is None:
            return count
        allowed = min(count, self._outward_left)
        self._outward_left -= allowed
        if allowed < count:
            self._outward_left = None
            self._open[way].clear()
        return allowed

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._writers.discard(writer)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            self._drop(writer)

    async def _stall(self, seconds: float, ways: tuple[int, ...]) -> None:
        for way in ways:
            self._open[way].clear()
            self._loop.call_later(seconds, self._open[way].set)

    async def _stall_behind(self, count: int) -> None:
        self._outward_left = count

    async def _end(self) -> None:
        self._server.close()
        # Those too in which a connection is just being accepted.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cut()
