"""What the console says of a failure of its own."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.routing import Route

from dray.console import app
from dray.console.console import VISITOR, Console
from dray.console.door import START
from dray.console.http import limits
from dray.console.http.refusal import HttpRefusal
from dray.console.visitors import Visitor
from dray.model.callers import Credential


@pytest.mark.parametrize(("path", "told"), [(f"{START}s3cret", START), ("/queues", "/queues")])
def test_a_failure_is_logged_with_its_page_and_without_a_start_link_or_a_query(
    caplog, monkeypatch, path, told
):
    said = []
    monkeypatch.setattr(Console, "error", lambda _self, *what: said.append(what))
    state = SimpleNamespace(console=object.__new__(Console))
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"token=s3cret",
            "headers": [],
            "server": ("localhost", 80),
            "app": SimpleNamespace(state=state),
        }
    )
    with caplog.at_level(logging.DEBUG):
        asyncio.run(app._bug(request, RuntimeError("broken")))
    assert said
    assert f"GET {told} failed" in caplog.text
    assert "s3cret" not in caplog.text


def of(visitor):
    """A request for a page."""
    return SimpleNamespace(method="GET", scope={VISITOR: visitor})


def test_a_visitor_who_asks_for_many_pages_at_once_leaves_the_loop_to_others():
    async def act():
        made, most = [], 0

        async def make(request):
            nonlocal most
            made.append(request.scope[VISITOR])
            most = max(most, made.count(greedy))
            await asyncio.sleep(0)
            made.remove(request.scope[VISITOR])

        page = app._in_time(Route("/page", make))
        greedy, other = Visitor(Credential()), Visitor(Credential())
        many = [asyncio.create_task(page.endpoint(of(greedy))) for _ in range(100)]
        await page.endpoint(of(other))
        assert sum(each.done() for each in many) <= limits.VISITOR_PAGES_MAX
        await asyncio.gather(*many)
        assert most == limits.VISITOR_PAGES_MAX

    asyncio.run(act())


def test_a_page_says_that_the_queue_manager_hangs(monkeypatch):
    monkeypatch.setattr(limits, "ANSWER_S", 0.05)

    async def hang(_request):
        await asyncio.sleep(60)

    page = app._in_time(Route("/page", hang))
    with pytest.raises(HttpRefusal, match=r"did not answer within 0\.05 s; look") as said:
        asyncio.run(page.endpoint(of(Visitor(Credential()))))
    assert said.value.status == 503
    assert [app._in_time(each).path for each in app.pages.routes] == [
        each.path for each in app.pages.routes
    ]
