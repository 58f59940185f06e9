"""Bodies on their way: read from the socket as fast as they are taken, written as fast as they go.

The server reads on only when the last piece was taken, so a queue manager that is slow slows the
client down, and memory does not grow. A client that stalls is hung up on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from dray.console.v1.limits import STALLED_S
from dray.console.v1.problems import HttpRefusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from dray.large.digests import Digest

Result = TypeVar("Result")
OCTETS: Final = "application/octet-stream"


class RequestBody:
    """The body of a request, read once. `size` counts the bytes that were given out."""

    def __init__(self, request: Request, digest: Digest | None = None) -> None:
        """Read nothing yet. `digest` takes in all that is read."""
        self._request = request
        self._digest = digest
        self._stream = self._pieces()
        self._kept: list[bytes] = []
        self.size = 0

    async def beginning(self, most: int) -> tuple[bytes, bool]:
        """Up to a little more than `most` bytes, which are read again later; and if that is all."""
        have = 0
        async for piece in self._stream:
            self._kept.append(piece)
            have += len(piece)
            if have > most:
                return b"", False
        return b"".join(self._kept), True

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Everything, from the beginning."""
        kept, self._kept = self._kept, []
        for piece in kept:
            yield piece
        async for piece in self._stream:
            yield piece

    async def drain(self) -> None:
        """Read to the end, and keep nothing."""
        async for _ in self:
            pass

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._request.stream()) as stream:
            while True:
                try:
                    async with asyncio.timeout(STALLED_S):
                        piece = await anext(stream, None)
                except TimeoutError as error:
                    raise HttpRefusal(
                        408, "stalled", f"the client sent nothing of the body for {STALLED_S:g} s;"
                        " send it again",
                        {"Connection": "close"},
                    ) from error  # fmt: skip
                if piece is None:
                    return
                if piece:
                    if self._digest is not None:
                        self._digest.update(piece)
                    self.size += len(piece)
                    yield piece


class BodyAnswer(Response):
    """An answer whose body comes piece by piece. The first piece is there before the status is."""

    def __init__(
        self, status: int, headers: dict[str, str], pieces: AsyncGenerator[bytes, None]
    ) -> None:
        """Take the pieces; their length stands in the headers."""
        super().__init__(None, status, media_type=OCTETS)
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in {"Content-Type": OCTETS, **headers}.items()
        ]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; raises the error of the first piece before anything is sent."""
        async with aclosing(self._pieces) as pieces, hearing_hang_ups(receive) as gone:
            piece = b"" if scope["method"] == "HEAD" else await anext(pieces, None)
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
                piece = await anext(pieces, None)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


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
