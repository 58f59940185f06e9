"""Clients that stall are hung up on, and nothing of theirs stays."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from dray.console.http import bodies, protocol
from dray.console.http.refusal import HttpRefusal
from dray.console.http.server import server
from dray.console.v1.problems import problem

LONG_S, SHORT_S = 60.0, 0.1


class Bodies:
    """An application that takes a body, or gives one without an end."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.app = Starlette(
            routes=[Route("/take", self.take, methods=["POST"]), Route("/give", self.give)]
        )

    async def take(self, request):
        try:
            async for _ in bodies.RequestBody(request):
                pass
        except HttpRefusal as refusal:
            return problem(refusal)
        raise AssertionError("the body ended")

    async def give(self, _request):
        async def pieces():
            try:
                while True:
                    yield bytes(1 << 18)
            finally:
                self.ended.set()

        return bodies.BodyAnswer(200, {"Content-Length": str(1 << 40)}, pieces())


@asynccontextmanager
async def served(app):
    listening = socket.create_server(("127.0.0.1", 0))
    running = server(app)
    task = asyncio.create_task(running.serve([listening]))
    try:
        yield await asyncio.open_connection(*listening.getsockname())
    finally:
        running.should_exit = True
        await task


@pytest.fixture
def short(monkeypatch):
    def shorten(module, name):
        monkeypatch.setattr(module, name, SHORT_S)

    return shorten


@pytest.mark.slow
@pytest.mark.parametrize("beginning", [b"", b"GET /give HT", b"GET /give HTTP/1.1\r\nHost:"])
def test_a_client_that_does_not_finish_the_head_of_a_request_is_hung_up_on(short, beginning):
    short(protocol, "HEAD_S")

    async def stall():
        async with served(Bodies().app) as (reader, writer):
            writer.write(beginning)
            assert await asyncio.wait_for(reader.read(), LONG_S) == b""
            writer.close()

    asyncio.run(stall())


@pytest.mark.slow
def test_a_body_that_stalls_is_answered_408_and_hung_up_on(short):
    short(bodies, "STALLED_S")

    async def stall():
        async with served(Bodies().app) as (reader, writer):
            writer.write(b"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nsome")
            answer = await asyncio.wait_for(reader.read(), LONG_S)
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"stalled" in answer
            writer.close()

    asyncio.run(stall())


@pytest.mark.slow
def test_a_client_that_takes_nothing_of_an_answer_is_hung_up_on(short):
    short(protocol, "STALLED_S")

    async def stall():
        given = Bodies()
        async with served(given.app) as (reader, writer):
            reader._limit = 1
            writer.write(b"GET /give HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(given.ended.wait(), LONG_S)
            writer.transport.abort()

    asyncio.run(stall())


@pytest.mark.slow
def test_an_answer_whose_client_has_hung_up_ends(short):
    async def hang_up():
        given = Bodies()
        async with served(given.app) as (reader, writer):
            writer.write(b"GET /give HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.read(1000)
            writer.transport.abort()
            await asyncio.wait_for(given.ended.wait(), LONG_S)

    asyncio.run(hang_up())
