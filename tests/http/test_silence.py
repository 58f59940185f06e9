"""A queue manager that is stopped: each request is answered, and those that only last are not."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager

import httpx
import pytest

import dray.aio
from dray.console.app import application as console_application
from dray.console.console import Callers, Console
from dray.console.door import LOOPBACK, Doorkeeping
from dray.console.http import limits
from dray.console.v1.holders import TokenHolders
from dray.model.callers import Credential
from tests.http.conftest import HttpManager
from tests.http.test_stalls import served

pytestmark = pytest.mark.slow
SHORT_S = 0.3


@contextmanager
def stopped(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def answers_while_stopped(server, monkeypatch):
    """What a console and its `/v1` answer to acts and requests; by path."""
    with server.connect_as_owner() as manager:
        token = manager.create_token("app")
        manager.create_queue("q")
    url = f"dray+unix://{server.data}/dray.sock"
    callers = Callers(lambda who: dray.aio.connect(url, token=who.token))
    holders = TokenHolders(lambda who: dray.aio.connect(url, token=who.token))
    console = Console(callers, [], read_only=False, name="m")
    keeping = Doorkeeping(LOOPBACK)
    cookie = keeping.visitors.admit(Credential(token))
    async with served(console_application(console, keeping, holders)) as (_, writer):
        base = "http://{}:{}".format(*writer.get_extra_info("peername"))
        headers = {"Authorization": f"Bearer {token}", "Origin": base}
        async with httpx.AsyncClient(
            base_url=base, headers=headers, cookies={keeping.cookie: cookie}, timeout=20
        ) as client:
            assert (await client.get("/v1/queues/q")).status_code == 200
            assert (await client.get("/queues")).status_code == 200
            monkeypatch.setattr(limits, "ANSWER_S", SHORT_S)
            # It lasts longer than the bound, and the queue manager answers.
            waited = await client.post("/v1/queues/q/receive?wait=1.5")
            assert waited.status_code == 204
            with stopped(server):
                found = [
                    await client.get("/v1/queues/q"),
                    await client.post("/v1/queues/q/messages", content=b"x"),
                    await client.post("/queues/act", data={"name": "q", "act": "purge"}),
                    await client.get("/queues/one?name=q"),
                ]
            monkeypatch.undo()
            assert (await client.get("/v1/queues/q")).status_code == 200
        writer.close()
    await holders.close()
    await console.close()
    return found


def test_a_queue_manager_that_is_stopped_leaves_no_request_without_an_answer(tmp_path, monkeypatch):
    with HttpManager("stopped", tmp_path) as server:
        read, sent, act, page = asyncio.run(answers_while_stopped(server, monkeypatch))
    assert (read.status_code, read.json()["code"]) == (503, "connection-lost")
    assert (sent.status_code, sent.json()["code"]) == (504, "in-doubt")
    assert "nobody knows whether this was done" in sent.json()["detail"]
    assert act.status_code == 504
    assert "nobody knows whether this was done" in act.text
    assert page.status_code == 503
