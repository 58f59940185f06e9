"""The rest of a long body, which goes from the socket straight into the memory of its reader.

    idle       `readinto`                reading    the kernel fills the memory of the reader
    reading    the memory is full        idle       the socket is not read until the next call
    reading    the last byte came        over       the connection has its own protocol again
    any        the client hung up        lost       `readinto` gives what came, then raises
    any        `interrupt`               idle       the same
    any        the answer is complete    dropping   what still comes is read and not kept

Nobody parses these bytes: the head of the request said how many they are.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from dray.console.http.limits import LONG_BODY_BYTES, STALLED_S
from dray.console.http.refusal import HttpRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn.protocols.http.flow_control import FlowControl


class LongBody(asyncio.BufferedProtocol):
    """Reads so many bytes of a connection in place of its own protocol."""

    def __init__(
        self, transport: asyncio.Transport, flow: FlowControl, http: asyncio.Protocol, left: int
    ) -> None:
        """Take the connection from `http`, which gets it back after `left` bytes."""
        self.left = left
        self._transport = transport
        self._flow = flow
        self._http = http
        self._loop = asyncio.get_running_loop()
        self._room = memoryview(b"")
        self._have = 0
        self._changed = asyncio.Event()
        self._heard_at = self._loop.time()
        self._lost = self._interrupted = False
        self._dropped: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        flow.pause_reading()
        transport.set_protocol(self)

    async def readinto(self, room: memoryview) -> int:
        """Fill memory; give fewer bytes only at the end of the body, then 0.

        Raises `HttpRefusal`, 408 for a client that stalls and 409 once it is interrupted, and
        `ClientDisconnect`. The bytes that came before are given first.
        """
        if not self.left:
            return 0
        self._check()
        self._room, self._have = room[: self.left], 0
        self._changed.clear()
        self._heard_at = self._loop.time()
        self._flow.resume_reading()
        try:
            while self._have < len(self._room) and not (self._lost or self._interrupted):
                await self._wait()
        finally:
            self._flow.pause_reading()
            self._room = memoryview(b"")
        if not self._have:
            self._check()
        return self._have

    def interrupt(self) -> None:
        """Read no more for a reader."""
        self._interrupted = True
        self._changed.set()

    def pause(self) -> None:
        """Read nothing until the next call."""
        self._flow.pause_reading()

    def drop(self, then: Callable[[], None]) -> None:
        """Read what still comes without keeping it; at the end call `then`."""
        self._dropped = then
        self._room, self._have = memoryview(bytearray(min(self.left, LONG_BODY_BYTES))), 0
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(STALLED_S, self._look)
        self._flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        del sizehint
        return self._room[self._have :][: self.left]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self.left -= nbytes
        self._heard_at = self._loop.time()
        if self._dropped is None:
            self._have += nbytes
            if self._have == len(self._room):
                self._flow.pause_reading()
                self._changed.set()
        if not self.left:
            self._flow.pause_reading()
            self._transport.set_protocol(self._http)
            self._end_dropping()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._lost = True
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()
        self._http.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes more slowly than it is given."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """It has taken enough for more."""
        self._http.resume_writing()

    def _check(self) -> None:
        if self._interrupted:
            raise interrupted()
        if self._lost:
            raise ClientDisconnect

    async def _wait(self) -> None:
        until = self._heard_at + STALLED_S
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError as error:
            if self._heard_at + STALLED_S <= self._loop.time():
                raise stalled() from error

    def _look(self) -> None:
        """Hang up on a client that stalls while its bytes are dropped."""
        until = self._heard_at + STALLED_S
        if until <= self._loop.time():
            self._transport.abort()
        else:
            self._timer = self._loop.call_at(until, self._look)

    def _end_dropping(self) -> None:
        if self._dropped is not None:
            assert self._timer is not None
            self._timer.cancel()
            self._dropped()


def stalled() -> HttpRefusal:
    """The answer to a client that sends nothing more."""
    return HttpRefusal(
        408, "stalled", f"the client sent nothing of the body for {STALLED_S:g} s; send it again",
        {"Connection": "close"},
    )  # fmt: skip


def interrupted() -> HttpRefusal:
    """The answer to a request that another one has ended."""
    return HttpRefusal(
        409, "interrupted", "another request asked how far the upload is, which ended this one; go"
        " on at the offset that it was told",
        {"Connection": "close"},
    )  # fmt: skip
