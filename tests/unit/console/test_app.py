"""What the console says of a failure of its own."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.routing import Route

from dray.console import app
from dray.console.console import Console
from dray.console.door import START
from dray.console.http import limits
from dray.console.http.refusal import HttpRefusal


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


def test_a_page_says_that_the_queue_manager_hangs(monkeypatch):
    monkeypatch.setattr(limits, "ANSWER_S", 0.05)

    async def hang(_request):
        await asyncio.sleep(60)

    page = app._in_time(Route("/page", hang))
    with pytest.raises(HttpRefusal, match=r"did not answer within 0\.05 s; look") as said:
        asyncio.run(page.endpoint(SimpleNamespace(method="GET")))
    assert said.value.status == 503
    assert [app._in_time(each).path for each in app.pages.routes] == [
        each.path for each in app.pages.routes
    ]
