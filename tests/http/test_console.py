"""HTTP for programs where the console serves it, and where it must not be served."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from dray.console import pages, sample
from dray.console.v1.routes import ROWS
from dray.console.v1.serving import application
from tests.browser.programs import staged


@pytest.fixture
def stage(tmp_path):
    with staged(tmp_path) as stage:
        yield stage


def programs(stage, token):
    return httpx.Client(
        base_url=stage.address,
        headers={"Authorization": f"Bearer {token}"},
        limits=httpx.Limits(max_keepalive_connections=0),
        timeout=30,
    )


@pytest.mark.slow
def test_the_console_serves_programs_and_operators_by_token_and_not_by_cookie(stage):
    with stage.connect() as owner:
        owner.create_queue("q")
        token = owner.create_token("app")
    with programs(stage, "wrong") as stranger:
        assert stranger.get("/v1/queues").status_code == 401
        assert stranger.get("/metrics").status_code == 401
        assert stranger.get("/healthz").text == "alive\n"
        assert stranger.get("/readyz").text == "ready\n"
    with stage.console.client() as visitor:
        assert visitor.get("/v1/queues").status_code == 401, "a cookie opens nothing here"
    with programs(stage, token) as app:
        # The token has no right at all: the rules of access say so, as for any caller.
        refused = app.get("/v1/queues/q")
        assert refused.status_code in (401, 403, 404)
        assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.slow
def test_a_read_only_console_changes_nothing_for_programs_either(tmp_path):
    with staged(tmp_path, "--read-only") as stage:
        with stage.connect() as owner:
            token = owner.create_token("app")
        with programs(stage, token) as app:
            for answer in (
                app.put("/v1/queues/q", json={}),
                app.post("/v1/queues/q/messages", content=b"x"),
                app.post("/v1/queues/q/receive"),
                app.post("/v1/uploads"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (403, "read-only")
            for row in ROWS:
                if row.changes:
                    path = re.sub(r"{\w+}", "x", row.path)
                    answer = app.request(row.method, path)
                    assert (answer.status_code, answer.json()["code"]) == (403, "read-only"), row
        with stage.console.client() as visitor:
            forms = [each for each in (*pages.routes, *sample.routes) if _changes(each)]
            assert len(forms) > 10
            for route in forms:
                path = re.sub(r"{[\w:]+}", "x", route.path)
                for method in ("POST", "PUT", "DELETE", "PATCH", "PROPFIND"):
                    answer = visitor.request(method, path)
                    assert answer.status_code == 403, path
                    assert "this console only shows things" in answer.text.lower()


def _changes(route):
    return bool(route.methods - {"GET", "HEAD"})


def test_programs_are_refused_where_others_could_read_their_tokens():
    app = application("dray://127.0.0.1:1", "/nowhere", private=False)

    async def ask(method):
        transport, said = httpx.ASGITransport(app=app), {"Authorization": "Bearer x"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, "/v1/queues", headers=said)

    for method in ("GET", "POST"):
        refused = asyncio.run(ask(method))
        assert (refused.status_code, refused.json()["code"]) == (403, "needs-tls")
