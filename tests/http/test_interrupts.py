"""A request that asks for an upload ends the one that sends it, whatever that one waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.requests import Request

from dray.console.http.bodies import RequestBody
from dray.console.http.protocol import TAKE_BODY
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.serving import application
from tests.http.test_uploads import PATCH, metadata, tus

BODY = b"ten bytes."
PATIENCE_S = 60.0


@asynccontextmanager
async def one_upload(server, client, queue):
    """`/v1` in this process, a client of it, and an upload of ten bytes: its object and address."""
    app = application(f"dray+unix://{server.data}/dray.sock", "")
    holders = app.state.token_holders
    asking = httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://here",
        headers={"Authorization": f"Bearer {client.token}"},
    )
    async with asyncio.timeout(PATIENCE_S), asking:
        said = tus(upload_length=len(BODY), upload_metadata=metadata(queue=queue))
        where = (await asking.post("/v1/uploads", headers=said)).headers["location"]
        (upload,) = holders._uploads._kept.values()
        try:
            yield asking, where, upload
        finally:
            await holders.close()


class HeldAnswers:
    """What the queue manager answers about one upload is held back until it is let through."""

    def __init__(self, upload):
        self.asked, self.answered, self.interrupted = (asyncio.Event() for _ in range(3))
        self._attach, self._interrupt = upload.attach, upload.interrupt
        upload.attach, upload.interrupt = self.attach, self.interrupt

    async def attach(self, link):
        self.asked.set()
        await self.answered.wait()
        await self._attach(link)

    def interrupt(self):
        self._interrupt()
        self.interrupted.set()


def sent(asking, where, body):
    """A request that sends bytes from the first on."""
    headers = {**tus(upload_offset=0), "Content-Type": PATCH}
    return asyncio.create_task(asking.patch(where, headers=headers, content=body))


async def cut():
    """The body of a client whose connection is dead."""
    yield BODY[:5]
    await asyncio.Event().wait()


@pytest.mark.parametrize("method", ["HEAD", "DELETE"])
def test_a_request_that_waits_for_the_queue_manager_is_ended_before_it_reads(
    server, client, queue, method
):
    async def act():
        async with one_upload(server, client, queue) as (asking, where, upload):
            held = HeldAnswers(upload)
            sending = sent(asking, where, cut())
            await held.asked.wait()
            other = asyncio.create_task(asking.request(method, where, headers=tus()))
            await held.interrupted.wait()
            held.answered.set()
            answer = await other
            assert answer.status_code == {"HEAD": 200, "DELETE": 204}[method], answer.text
            ended = await sending
            assert (ended.status_code, ended.json()["code"]) == (409, "interrupted")
            if method == "HEAD":
                assert answer.headers["upload-offset"] == "0"
                assert (await sent(asking, where, BODY)).status_code == 204

    asyncio.run(act())


def test_a_request_that_waits_behind_another_for_the_upload_has_it_next_and_is_ended(
    server, client, queue
):
    async def act():
        async with one_upload(server, client, queue) as (asking, where, upload):
            held = HeldAnswers(upload)
            async with upload.lock:
                first = asyncio.create_task(asking.head(where, headers=tus()))
                await held.interrupted.wait()
            # The lock is free, and the first request has it as soon as it runs.
            assert not upload.lock.locked()

            async def come_later():
                await refused(send(upload, RequestBody(Unread().request)), 423)
                upload.interrupt()
                held.answered.set()

            later = asyncio.create_task(come_later())
            await refused(send(upload, RequestBody(Unread().request)), 409)
            await later
            assert (await first).status_code == 200

    asyncio.run(act())


async def send(upload, body):
    """As a request with that body does."""
    async with upload.sent_by(body):
        await body.drain()


async def refused(waited, status):
    """Wait for something that ends with a refusal."""
    with pytest.raises(HttpRefusal) as refusal:
        await waited
    assert refusal.value.status == status


class Unread:
    """A request whose body nobody may touch."""

    def __init__(self, **headers):
        named = [(name.encode(), str(value).encode()) for name, value in headers.items()]
        state = {TAKE_BODY: self.taken}
        self.request = Request({"type": "http", "headers": named, "state": state}, self.receive)

    def taken(self):
        raise AssertionError("the connection was taken for its body")

    async def receive(self):
        raise AssertionError("the body was read")


def test_an_interrupt_before_the_first_read_is_told_to_each_read():
    async def act():
        body = RequestBody(Unread().request)
        body.interrupt()
        for _ in range(2):
            await refused(body.readinto(memoryview(bytearray(10))), 409)

    asyncio.run(act())


def test_two_interrupts_at_once_end_a_read_once():
    async def act():
        reads = asyncio.Event()

        async def receive():
            reads.set()
            await asyncio.Event().wait()

        for turns in range(4):
            reads.clear()
            body = RequestBody(Request({"type": "http", "headers": []}, receive))
            reading = asyncio.create_task(refused(body.drain(), 409))
            await reads.wait()
            body.interrupt()
            # Its time is over by now, and it has not been told yet, in one of these turns.
            for _ in range(turns):
                await asyncio.sleep(0)
            body.interrupt()
            await reading

    asyncio.run(act())
