"""Bodies on their way: read from the socket as fast as they are taken, written as fast as they go.

The server reads on only when the last piece was taken, so a queue manager that is slow slows the
client down, and memory does not grow. A client that stalls is hung up on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dray.console.http.limits import LONG_BODY_BYTES, PIECE_BYTES, STALLED_S
from dray.console.http.long_body import LongBody, interrupted, stalled
from dray.console.http.protocol import HANG_UP, TAKE_BODY
from dray.errors import DrayError
from dray.large.digests import Digest

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
Piece: TypeAlias = bytes | bytearray | memoryview
OCTETS: Final = "application/octet-stream"


class RequestBody:
    """The body of a request, read once. `size` counts the bytes that were given out."""

    def __init__(self, request: Request, digest: Digest | None = None) -> None:
        """Read nothing yet. `digest` takes in all that is read."""
        self._request = request
        self._digest = digest
        self._long: LongBody | None = None
        self._begun = self._ended = self._interrupted = False
        self._limit: asyncio.Timeout | None = None
        self._rest = memoryview(b"")
        """Bytes that were read, and not given out yet."""
        declared = request.headers.get("content-length")
        self.declared = None if declared is None else int(declared)
        self.size = 0

    async def readinto(self, room: memoryview) -> int:
        """Put at least one byte into `room`, and as many as there are; 0 at the end.

        Raises `HttpRefusal`, 408 for a client that stalls and 409 once it is interrupted, and
        `ClientDisconnect`.
        """
        count = await self._some(room)
        await self._count(room[:count])
        return count

    async def __aiter__(self) -> AsyncGenerator[memoryview, None]:
        """Everything in pieces, each valid until the next is asked for. Raises as `readinto`."""
        room = memoryview(bytearray(self._room_bytes(PIECE_BYTES)))
        while count := await self.readinto(room):
            yield room[:count]

    async def beginning(self, most: int) -> tuple[bytearray, bool]:
        """The whole body if it has at most `most` bytes; and if that is so.

        A longer one is still there to be read from its beginning.
        """
        kept = bytearray()
        if self.declared is not None and self.declared > most:
            return kept, False
        room = memoryview(bytearray(self._room_bytes(most + 1)))
        while len(kept) <= most and (count := await self._some(room)):
            kept += room[:count]
        if len(kept) > most:
            self._rest = memoryview(kept + self._rest)
            return bytearray(), False
        await self._count(memoryview(kept))
        return kept, True

    async def drain(self) -> None:
        """Read to the end, and keep nothing."""
        async for _ in self:
            pass

    def interrupt(self) -> None:
        """Let the reader have no more than has come; its next call raises `HttpRefusal`, 409."""
        self._interrupted = True
        if self._long is not None:
            self._long.interrupt()
        elif self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def _room_bytes(self, most: int) -> int:
        return most if self.declared is None else min(most, self.declared + 1)

    async def _count(self, piece: memoryview) -> None:
        self.size += len(piece)
        if self._digest is None:
            return
        if len(piece) < LONG_BODY_BYTES:
            self._digest.update(piece)
        else:
            await asyncio.to_thread(self._digest.update, piece)

    async def _some(self, room: memoryview) -> int:
        if not self._begun:
            self._check()
            self._begun = True
            await self._begin()
        if not self._rest:
            if self._long is not None:
                return await self._long.readinto(room)
            self._rest = memoryview(await self._next())
        count = min(len(room), len(self._rest))
        room[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    async def _begin(self) -> None:
        take = self._request.scope.get("state", {}).get(TAKE_BODY)
        self._long = None if take is None else take()
        if self._long is not None:
            self._rest = memoryview(await self._next())
            self._long.pause()

    async def _next(self) -> bytes:
        """The next bytes of the parser; nothing at the end."""
        while not self._ended:
            self._check()
            try:
                async with asyncio.timeout(STALLED_S) as self._limit:
                    message = await self._request.receive()
            except TimeoutError as error:
                self._check()
                raise stalled() from error
            finally:
                self._limit = None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            if message["body"] or self._long is not None:
                return bytes(message["body"])
        return b""

    def _check(self) -> None:
        if self._interrupted:
            raise interrupted()


class BodyAnswer(Response):
    """An answer whose body comes piece by piece. The first piece is there before the status is."""

    def __init__(
        self, status: int, headers: dict[str, str], pieces: AsyncGenerator[Piece, None]
    ) -> None:
        """Take the pieces, each valid until the next is asked for; the headers have their length.

        The pieces are closed in the end, also where the answer is never given.
        """
        super().__init__(None, status, media_type=OCTETS)
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in {"Content-Type": OCTETS, **headers}.items()
        ]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; raises the error of the first piece before anything is sent.

        An error of a later piece ends the connection, so that the client sees that bytes are
        missing.
        """
        begun = False
        async with (
            aclosing(self._pieces) as pieces,
            aclosing(_gathered(pieces)) as gathered,
            hearing_hang_ups(receive) as gone,
        ):
            try:
                piece = b"" if scope["method"] == "HEAD" else await anext(gathered, b"")
                begun = True
                await send(
                    {
                        "type": "http.response.start",
                        "status": self.status_code,
                        "headers": self.raw_headers,
                    }
                )
                while piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if gone.done():
                        return
                    piece = await anext(gathered, b"")
            except DrayError as error:
                if not begun:
                    raise
                _log.warning("a body broke off on its way to a client: %s", error)
                scope["state"][HANG_UP]()
                await gone
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gathered(pieces: AsyncIterator[Piece]) -> AsyncGenerator[Piece, None]:
    """The same bytes in pieces that are worth a call to the kernel."""
    gathered = bytearray()
    async for piece in pieces:
        if gathered or len(piece) < LONG_BODY_BYTES:
            gathered += piece
            if len(gathered) >= LONG_BODY_BYTES:
                yield gathered
                gathered = bytearray()
            continue
        view = memoryview(piece)
        for at in range(0, len(view), PIECE_BYTES):
            yield view[at : at + PIECE_BYTES]
    if gathered:
        yield gathered


@asynccontextmanager
async def hearing_hang_ups(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """A task that is done when the client has hung up; what it still sends is of no interest."""

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    hearing = asyncio.create_task(hang_up())
    try:
        yield hearing
    finally:
        hearing.cancel()
        await asyncio.wait((hearing,))


async def unless_hung_up(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Do something for a client; if the client hangs up, cancel it and raise `ClientDisconnect`."""
    doing = asyncio.create_task(work)
    async with hearing_hang_ups(receive) as gone:
        try:
            await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.wait((doing,))
    if doing.cancelled():
        raise ClientDisconnect
    return doing.result()
