"""TLS handshakes with the server of HTTP: bounded in number and time, and nobody is kept out."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dray.console.http import handshakes
from dray.console.http.server import server

PATIENCE_S = 60.0


async def hello(request):
    return PlainTextResponse(f"{request.url.scheme} {len(await request.body())}")


@asynccontextmanager
async def served():
    """A server with TLS: its address, and the context of a client that trusts it."""
    authority = trustme.CA()
    shown, trusted = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("localhost").configure_cert(shown)
    authority.configure_trust(trusted)
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    running = server(Starlette(routes=[Route("/", hello, methods=["GET", "POST"])]), shown)
    task = asyncio.create_task(running.serve([listening]))
    try:
        yield address, trusted
    finally:
        running.should_exit = True
        await asyncio.wait_for(task, PATIENCE_S)


async def answer(address, trusted, body=b""):
    reader, writer = await asyncio.open_connection(
        *address, ssl=trusted, server_hostname="localhost"
    )
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    found = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    return found.partition(b"\r\n\r\n")[2]


def test_silent_handshakes_of_one_address_end_and_shut_the_https_door_for_nobody(monkeypatch):
    monkeypatch.setattr("dray.net.handshakes.HANDSHAKES_PER_HOST_MAX", 4)

    async def run():
        async with served() as (address, trusted):
            silent = [await asyncio.open_connection(*address) for _ in range(3)]
            half, _ = silent[0]
            silent[0][1].write(b"\x16\x03\x01")
            more = [await asyncio.open_connection(*address) for _ in range(4)]
            # The oldest of too many ends; those that are left are as many as there may be.
            for reader, _ in silent:
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            assert half.at_eof()
            assert await answer(address, trusted, bytes(300_000)) == b"https 300000"
            assert not more[-1][0].at_eof()
            for _, writer in (*silent, *more):
                writer.close()

    asyncio.run(run())


def test_a_handshake_with_the_https_door_takes_bounded_time(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.1)

    async def run():
        async with served() as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(50)])
def test_bytes_that_are_no_tls_end_their_connection_and_no_other(said, caplog):
    async def run():
        async with served() as (address, trusted):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(said)
            await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            assert await answer(address, trusted) == b"https 0"

    asyncio.run(run())
    assert not caplog.records
