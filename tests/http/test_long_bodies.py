"""Long bodies of requests go past the parser, and the connection serves on behind them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import time
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dray.console.http import bodies, limits, long_body
from dray.console.http.refusal import HttpRefusal
from dray.console.http.server import server
from dray.console.v1.calls import problem
from dray.net.certificates import issue, make_authority
from dray.net.tls import presenting

pytestmark = pytest.mark.slow
LONG_S, SHORT_S = 60.0, 0.1
BODY = os.urandom(1_500_000)


class Reader:
    """An application that reads bodies, or answers without a look at them."""

    def __init__(self):
        self.straight = []
        self.app = Starlette(
            routes=[
                Route("/digest", self.digest, methods=["POST"]),
                Route("/refuse", self.refuse, methods=["POST"]),
            ]
        )

    async def digest(self, request):
        body, digest = bodies.RequestBody(request), hashlib.sha256()
        try:
            async for piece in body:
                digest.update(piece)
        except HttpRefusal as refusal:
            return problem(refusal)
        self.straight.append(body._long is not None)
        return PlainTextResponse(f"{body.size} {digest.hexdigest()}")

    async def refuse(self, request):
        await bodies.RequestBody(request).readinto(memoryview(bytearray(10)))
        return PlainTextResponse("refused", 403)


@asynccontextmanager
async def served(app, tls=None, trusting=None):
    listening = socket.create_server(("127.0.0.1", 0))
    running = server(app, tls)
    task = asyncio.create_task(running.serve([listening]))
    reader, writer = await asyncio.open_connection(*listening.getsockname(), ssl=trusting)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        running.should_exit = True
        await task


def head(path, *lines):
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: x", *lines, "", "")).encode()


async def answer_of(reader):
    """Status and body of the next answer."""
    said = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LONG_S)).lower()
    length = int(said.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(said.split()[1]), await asyncio.wait_for(reader.readexactly(length), LONG_S)


LENGTH = f"Content-Length: {len(BODY)}"
TOLD = f"{len(BODY)} {hashlib.sha256(BODY).hexdigest()}".encode()


def test_requests_behind_a_long_body_are_answered_on_the_same_connection():
    async def act():
        application = Reader()
        async with served(application.app) as (reader, writer):
            for _ in range(2):
                # Both arrive before the first is answered.
                writer.write(2 * (head("/digest", LENGTH) + BODY))
                assert await answer_of(reader) == (200, TOLD)
                assert await answer_of(reader) == (200, TOLD)
        assert application.straight == 4 * [True]

    asyncio.run(act())


def test_requests_behind_a_long_body_are_answered_through_tls(tmp_path):
    authority, _ = make_authority(tmp_path, now=time.time())
    issued = issue(tmp_path, "server", ["127.0.0.1"], now=time.time())

    async def act():
        application = Reader()
        trusting = ssl.create_default_context(cafile=authority)
        async with served(application.app, presenting(issued), trusting) as (reader, writer):
            writer.write(2 * (head("/digest", LENGTH) + BODY))
            assert await answer_of(reader) == (200, TOLD)
            assert await answer_of(reader) == (200, TOLD)
        assert application.straight == 2 * [True]

    asyncio.run(act())


def test_a_long_body_comes_whole_in_whatever_pieces_it_was_sent():
    async def act():
        application = Reader()
        async with served(application.app) as (reader, writer):
            writer.write(head("/digest", LENGTH))
            at = 0
            for size in (1, 300_000, 2, 262_144, len(BODY)):
                writer.write(BODY[at : at + size])
                await writer.drain()
                at += size
            assert await answer_of(reader) == (200, TOLD)

    asyncio.run(act())


def test_a_client_that_waits_for_100_continue_is_told_before_its_long_body():
    async def act():
        async with served(Reader().app) as (reader, writer):
            writer.write(head("/digest", LENGTH, "Expect: 100-continue"))
            said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LONG_S)
            assert said.startswith(b"HTTP/1.1 100")
            writer.write(BODY)
            assert await answer_of(reader) == (200, TOLD)

    asyncio.run(act())


def test_a_long_body_that_was_refused_is_dropped_and_the_next_request_is_answered():
    async def act():
        async with served(Reader().app) as (reader, writer):
            writer.write(head("/refuse", LENGTH))
            assert len(BODY) > long_body.LONG_BODY_BYTES
            writer.write(BODY[:20])
            assert await answer_of(reader) == (403, b"refused")
            writer.write(BODY[20:] + head("/digest", LENGTH) + BODY)
            assert await answer_of(reader) == (200, TOLD)

    asyncio.run(act())


def test_a_chunked_body_is_read_by_the_parser():
    async def act():
        application = Reader()
        async with served(application.app) as (reader, writer):
            writer.write(head("/digest", "Transfer-Encoding: chunked"))
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
            assert await answer_of(reader) == (200, TOLD)
        assert application.straight == [False]

    asyncio.run(act())


def test_a_long_body_that_stalls_is_answered_408(monkeypatch):
    monkeypatch.setattr(long_body, "STALLED_S", SHORT_S)

    async def act():
        async with served(Reader().app) as (reader, writer):
            writer.write(head("/digest", LENGTH) + BODY[:-1])
            status, said = await answer_of(reader)
            assert status == 408
            assert b"stalled" in said

    asyncio.run(act())


def test_a_client_that_stalls_while_its_body_is_dropped_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(long_body, "STALLED_S", SHORT_S)
    monkeypatch.setattr(limits, "HEAD_S", LONG_S)

    async def act():
        async with served(Reader().app) as (reader, writer):
            writer.write(head("/refuse", LENGTH) + BODY[:-1])
            assert await answer_of(reader) == (403, b"refused")
            assert await asyncio.wait_for(reader.read(), LONG_S) == b""

    asyncio.run(act())


def test_a_client_that_hangs_up_in_a_long_body_ends_its_request():
    async def act():
        ended = asyncio.Event()

        async def take(request):
            try:
                await bodies.RequestBody(request).drain()
            finally:
                ended.set()

        app = Starlette(routes=[Route("/take", take, methods=["POST"])])
        async with served(app) as (_, writer):
            writer.write(head("/take", LENGTH) + BODY[:-1])
            await writer.drain()
            writer.transport.abort()
            await asyncio.wait_for(ended.wait(), LONG_S)

    asyncio.run(act())
