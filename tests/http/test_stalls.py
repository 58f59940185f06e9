"""Clients that stall are hung up on, and nothing of theirs stays."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from dray.console import form as console_form
from dray.console.form import read_form
from dray.console.http import bodies, limits, protocol
from dray.console.http.refusal import HttpRefusal
from dray.console.http.server import server
from dray.console.v1.calls import problem
from dray.errors import ConnectionLost
from tests.integration.commands import until

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
    short(limits, "HEAD_S")

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
    short(limits, "STALLED_S")

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


FORM_HEAD = (
    b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
)


def served_form(form):
    return served(Starlette(routes=[Route("/form", form, methods=["POST"])]))


@pytest.mark.slow
def test_a_form_that_stalls_is_answered_408(short):
    short(bodies, "STALLED_S")

    async def form(request):
        with pytest.raises(HttpRefusal) as refused:
            await read_form(request)
        return problem(refused.value)

    async def stall():
        async with served_form(form) as (reader, writer):
            writer.write(FORM_HEAD % 100 + b"name=o")
            answer = await asyncio.wait_for(reader.read(), LONG_S)
            assert answer.startswith(b"HTTP/1.1 408")
            writer.close()

    asyncio.run(stall())


@pytest.mark.slow
def test_a_form_that_comes_a_byte_now_and_then_is_answered_408(monkeypatch):
    monkeypatch.setattr(console_form, "STALLED_S", 0.5)

    async def form(request):
        with pytest.raises(HttpRefusal, match="did not come whole") as refused:
            await read_form(request)
        return problem(refused.value)

    async def drip():
        async with served_form(form) as (reader, writer):
            writer.write(FORM_HEAD % 100000)
            answer = asyncio.create_task(reader.read(12))
            until = asyncio.get_running_loop().time() + LONG_S
            while not answer.done():
                assert asyncio.get_running_loop().time() < until
                writer.write(b"x")
                await asyncio.wait({answer}, timeout=0.05)
            assert answer.result() == b"HTTP/1.1 408"
            writer.close()

    asyncio.run(drip())


UNREAD = b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


async def unread(_request):
    return Response(b"refused", 401)


@pytest.mark.slow
def test_bodies_that_nobody_reads_any_more_take_no_place_of_others(monkeypatch):
    monkeypatch.setattr(limits, "WITHOUT_HEAD_MAX", 3)

    async def drip():
        async with served(Starlette(routes=[Route("/unread", unread, methods=["POST"])])) as first:
            address = first[1].get_extra_info("peername")
            ended, writers = [], []
            for at in range(10):
                reader, writer = await asyncio.open_connection(*address) if at else first
                writer.write(UNREAD)
                assert (await reader.readuntil(b"refused")).startswith(b"HTTP/1.1 401")
                writer.write(b"x")
                ended.append(asyncio.create_task(reader.read()))
                writers.append(writer)
            gone, kept = await asyncio.wait(ended, timeout=1)
            for each in writers:
                each.close()
            await asyncio.gather(*ended, return_exceptions=True)
            assert (len(gone), len(kept)) == (7, 3)

    asyncio.run(drip())


@pytest.mark.slow
def test_forms_of_strangers_take_no_place_of_others(monkeypatch):
    monkeypatch.setattr(limits, "WITHOUT_HEAD_MAX", 3)
    gone = []

    async def sign_in(request):
        request.scope["state"][protocol.STRANGER]()
        with pytest.raises(ClientDisconnect):
            await read_form(request)
        gone.append(request)
        return Response()

    async def drip():
        async with served(Starlette(routes=[Route("/in", sign_in, methods=["POST"])])) as first:
            address = first[1].get_extra_info("peername")
            writers = []
            for at in range(10):
                _, writer = await asyncio.open_connection(*address) if at else first
                writers.append(writer)
                writer.write(
                    b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
                    b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
                )
                await asyncio.sleep(0.02)
                writer.write(b"x")
            await asyncio.to_thread(until, lambda: len(gone) >= 7)
            await asyncio.sleep(0.1)
            assert len(gone) == 7
            for each in writers:
                each.close()
            await asyncio.to_thread(until, lambda: len(gone) == 10)

    asyncio.run(drip())


@pytest.mark.slow
def test_a_body_that_stalls_after_its_answer_is_hung_up_on(short):
    short(limits, "STALLED_S")

    async def stall():
        async with served(Starlette(routes=[Route("/unread", unread, methods=["POST"])])) as (
            reader,
            writer,
        ):
            writer.write(UNREAD)
            await reader.readuntil(b"refused")
            writer.write(b"x")
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), LONG_S) == b""
            writer.close()

    asyncio.run(stall())


@asynccontextmanager
async def narrow(app):
    """A server and one of its clients, between which few bytes are on their way."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    running = server(app)
    task = asyncio.create_task(running.serve([listening]))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        await asyncio.to_thread(client.connect, listening.getsockname())
        try:
            yield running, client
        finally:
            running.should_exit = True
            await task


async def whole_page(_request):
    """An answer that no buffer of the kernel holds, and that is too short to be held back."""
    return Response(bytes(60_000))


@pytest.mark.slow
def test_a_client_that_takes_nothing_of_its_last_answer_is_hung_up_on(short):
    short(limits, "STALLED_S")

    async def stall():
        async with narrow(Starlette(routes=[Route("/page", whole_page)])) as (running, client):
            client.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await asyncio.to_thread(client.recv, 1)
            await asyncio.to_thread(until, lambda: not running.server_state.connections)

    asyncio.run(stall())


def test_a_client_that_takes_an_answer_slowly_may_take_its_time():
    async def take():
        async with narrow(Bodies().app) as (running, client):
            client.sendall(b"GET /give HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.to_thread(client.recv, 1)
            (connection,) = running.server_state.connections
            await asyncio.to_thread(until, lambda: connection._taking_timer is not None)
            for _ in range(3):
                # Less than a piece, so the server has no reason to write on.
                await asyncio.to_thread(client.recv, 30_000, socket.MSG_WAITALL)
                connection._look_at_taking()
                assert not connection.transport.is_closing()
            while connection._untaken != protocol._bytes_untaken(connection.transport):
                connection._watch_taking()
                await asyncio.sleep(0)
            connection._look_at_taking()
            assert connection.transport.is_closing(), "it has taken nothing more"

    asyncio.run(take())


def test_clients_that_come_at_once_with_their_requests_are_all_answered(monkeypatch):
    monkeypatch.setattr(limits, "WITHOUT_HEAD_MAX", 2)
    app = Starlette(routes=[Route("/page", whole_page)])

    async def come():
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        with ExitStack() as stack:
            clients = []
            for _ in range(20):
                client = socket.create_connection(listening.getsockname(), timeout=LONG_S)
                clients.append(stack.enter_context(client))
                client.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            running = server(app)
            task = asyncio.create_task(running.serve([listening]))
            for client in clients:
                answer = await asyncio.to_thread(client.recv, 100)
                assert answer.startswith(b"HTTP/1.1 200")
            running.should_exit = True
            await task

    asyncio.run(come())


def test_a_body_that_breaks_off_ends_its_connection_and_is_one_line_in_the_log(caplog):
    async def pieces():
        yield bytes(1 << 20)
        raise ConnectionLost("the queue manager is gone; start it again")

    async def broken(_request):
        return bodies.BodyAnswer(200, {"Content-Length": str(2 << 20)}, pieces())

    async def take():
        app = Starlette(routes=[Route("/broken", broken)])
        async with served(app) as (reader, writer):
            writer.write(b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
            with suppress(ConnectionError):
                assert len(await reader.read(-1)) < 2 << 20
            writer.close()

    asyncio.run(take())
    (line,) = caplog.records
    assert line.getMessage() == (
        "a body broke off on its way to a client: the queue manager is gone; start it again"
    )
    assert line.exc_info is None
