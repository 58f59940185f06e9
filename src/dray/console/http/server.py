"""The server of `/v1` and of the console: one loop, and the same bounds for both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dray.console.http.handshakes import HttpsHandshakes
from dray.console.http.limits import CONNECTIONS_MAX, GRACE_S, HEAD_BYTES_MAX
from dray.console.http.protocol import BoundedProtocol, WithoutHead

_INPUT_BYTES: Final = 4096
_CUT_OFF: Final = "Cancel %s running task(s), timeout graceful shutdown exceeded"
_ORIGIN: Final = re.compile(rb"https?://[^/]*", re.IGNORECASE)


def server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> QuietServer:
    """A server that logs its own failures, and no request; `should_exit` ends it."""
    # It warns of each malformed request, so strangers could fill the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(_is_failure)

    class OwnProtocol(BoundedProtocol):
        without_head = WithoutHead()

    shaking = None if tls is None else HttpsHandshakes(tls, OwnProtocol)
    config = uvicorn.Config(
        _within_head_bound(app),
        http=OwnProtocol if shaking is None else shaking.protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
    )
    return QuietServer(config, shaking)


def _is_failure(record: logging.LogRecord) -> bool:
    """Whether a record tells of more than requests that the end of the server has cut off."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and record.msg != _CUT_OFF


def _within_head_bound(app: ASGIApp) -> ASGIApp:
    """The same application, for heads that keep to the bound.

    The parser bounds a head that is not complete yet; a complete one may come in one piece.
    """

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers", ())
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
            send = _closing(send)
        if sum(len(name) + len(value) for name, value in headers) <= HEAD_BYTES_MAX:
            await app(_without_origin(scope), receive, send)
            return
        told = f"The headers of a request have at most {HEAD_BYTES_MAX:,} bytes; send shorter ones."
        await PlainTextResponse(told, 400)(scope, receive, send)

    return bounded


def _closing(send: Send) -> Send:
    """Let nothing follow on a connection: two servers could see different ends of its request."""

    async def closed(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return closed


def _without_origin(scope: Scope) -> Scope:
    """The same request with its path alone, where it says the whole address, as to a proxy."""
    found = _ORIGIN.match(scope.get("raw_path", b""))
    if found is None:
        return scope
    path = scope["raw_path"][found.end() :] or b"/"
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii"))}


def end_with_input(running: uvicorn.Server) -> None:
    """End a server when standard input ends, which the program that started it holds open."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def heard() -> None:
        if not os.read(descriptor, _INPUT_BYTES):
            loop.remove_reader(descriptor)
            running.should_exit = True

    loop.add_reader(descriptor, heard)


class QuietServer(uvicorn.Server):
    """A server that leaves the signals of its process alone."""

    def __init__(self, config: uvicorn.Config, shaking: HttpsHandshakes | None) -> None:
        """Take the handshakes that end with the server."""
        super().__init__(config)
        self._shaking = shaking

    def present(self, shown: ssl.SSLContext) -> None:
        """Show later callers another certificate, where the server speaks TLS."""
        if self._shaking is not None:
            self._shaking.present(shown)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end what is under way."""
        if self._shaking is not None:
            self._shaking.cancel()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal: its program says when it ends."""
        yield
