"""TLS between two machines, as a tunnel: both ends go on speaking to an ordinary socket.

    program or daemon <-- a socket pair --> the tunnel <-- TLS over TCP --> the tunnel there

So nothing of connections, outboxes or threads knows of TLS, and `sendfile` and gathered writes stay
what they are, for the price of two copies a byte. A tunnel holds a few pieces and waits for
whichever end is slower. It ends with either end, and the other then sees what the network would
have shown it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from dray.forks import keep_from_children
from dray.net.handshakes import HANDSHAKE_S
from dray.net.tls import CLOSED_UNHEARD, TunnelEnd, said_of

_PIECE_BYTES = 256 << 10

_Protocol = asyncio.StreamReaderProtocol
_ShakeHands = Callable[
    [Callable[[], _Protocol]], Awaitable[tuple[asyncio.WriteTransport, _Protocol]]
]


class Tunnels:
    """The tunnels of one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, sock: socket.socket, host: str, context: ssl.SSLContext) -> socket.socket:
        """Shake hands on a connected socket with whom is called `host`; the end to speak into.

        Raises OSError, of which `ssl.SSLError` is one; `sock` is closed then.
        """
        loop = asyncio.get_running_loop()
        return await self._tunnel(
            sock,
            partial(
                loop.create_connection,
                sock=sock,
                ssl=context,
                server_hostname=host,
                ssl_handshake_timeout=HANDSHAKE_S,
            ),
        )

    async def answer(self, sock: socket.socket, context: ssl.SSLContext) -> socket.socket:
        """Shake hands with whom a listener has accepted; the end to speak into. Raises OSError."""
        loop = asyncio.get_running_loop()
        return await self._tunnel(
            sock,
            partial(
                loop.connect_accepted_socket,
                sock=sock,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S,
            ),
        )

    async def ended(self) -> None:
        """Wait until those that there are have ended by themselves."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        await self.ended()

    async def _tunnel(self, sock: socket.socket, shake_hands: _ShakeHands) -> socket.socket:
        """Shake hands on `sock` as asked, and dig; `sock` is closed if that fails."""
        keep_from_children(sock)
        sock.setblocking(False)
        reader = asyncio.StreamReader(limit=_PIECE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await shake_hands(lambda: protocol)
        except BaseException:
            sock.close()
            raise
        loop = asyncio.get_running_loop()
        return self._dig(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def _dig(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> socket.socket:
        near, theirs = socket.socketpair()
        ours = TunnelEnd(fileno=near.detach())
        ours.outer_host = str(writer.get_extra_info("sockname")[0])
        ours.outer_address = writer.get_extra_info("peername")
        certificate = writer.get_extra_info("peercert")
        if certificate:
            ours.names = tuple(name for _, name in certificate.get("subjectAltName", ()))
        for each in (ours, theirs):
            keep_from_children(each)
        theirs.setblocking(False)
        task = asyncio.get_running_loop().create_task(_relay(theirs, reader, writer, ours))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            # Also of a task that was cancelled before it began.
            theirs.close()
            writer.close()
            self._tasks.discard(task)

        task.add_done_callback(ended)
        return ours


async def _relay(
    inner: socket.socket,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    near: TunnelEnd,
) -> None:
    """Carry bytes in both directions until one ends; `near` is told why TLS refused."""
    inward = asyncio.ensure_future(_inward(inner, reader, near))
    directions = [asyncio.ensure_future(_outward(inner, writer)), inward]
    try:
        ended, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        errors = [each.exception() for each in ended]
        if (inward in ended or any(errors)) and not near.heard:
            near.reason = CLOSED_UNHEARD
        for error in errors:
            if isinstance(error, ssl.SSLError):
                near.reason = said_of(error)
    finally:
        for each in directions:
            each.cancel()
        try:
            await asyncio.gather(*directions, return_exceptions=True)
        finally:
            inner.close()
            writer.close()
        with suppress(OSError, TimeoutError):
            await writer.wait_closed()


async def _outward(inner: socket.socket, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(inner, _PIECE_BYTES):
        writer.write(data)
        await writer.drain()


async def _inward(inner: socket.socket, reader: asyncio.StreamReader, near: TunnelEnd) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(_PIECE_BYTES):
        near.heard = True
        await loop.sock_sendall(inner, data)


def call_in_thread(sock: socket.socket, host: str, context: ssl.SSLContext) -> socket.socket:
    """As `Tunnels.call`, for callers without a loop: a thread that ends with its tunnel has one.

    Gives a blocking socket.
    """
    return _in_thread(lambda tunnels: tunnels.call(sock, host, context))


def answer_in_thread(sock: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """As `Tunnels.answer`, in the same way."""
    return _in_thread(lambda tunnels: tunnels.answer(sock, context))


def _in_thread(begin: Callable[[Tunnels], Awaitable[socket.socket]]) -> socket.socket:
    begun: Future[socket.socket] = Future()

    async def carry() -> None:
        tunnels = Tunnels()
        try:
            inner = await begin(tunnels)
        except BaseException as error:  # noqa: BLE001 - raised again where it was called
            begun.set_exception(error)
            return
        inner.setblocking(True)
        begun.set_result(inner)
        await tunnels.ended()

    threading.Thread(target=lambda: asyncio.run(carry()), name="dray-tls", daemon=True).start()
    return begun.result()
