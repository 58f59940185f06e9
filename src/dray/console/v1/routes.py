"""All routes of `/v1`: one table for the application, the OpenAPI document and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from dray.console.http.refusal import HttpRefusal
from dray.console.v1 import leases, queues, sending, transactions, uploads
from dray.console.v1.calls import Endpoint, Row, problem
from dray.console.v1.openapi import QUERIES, document

ROWS: Final = (
    Row("GET", "/v1/manager", queues.manager, (200,), "State of the queue manager.", changes=False),
    Row(
        "GET", "/v1/queues", queues.list_all, (200,), "Every queue that the caller may see.",
        changes=False,
    ),
    Row("GET", "/v1/queues/{queue}", queues.describe, (200,), "State of one queue.", changes=False),
    Row("PUT", "/v1/queues/{queue}", queues.create, (201,), "Create a queue.", "json"),
    Row("DELETE", "/v1/queues/{queue}", queues.delete, (204,), "Delete a queue and its messages."),
    Row(
        "POST", "/v1/queues/{queue}/messages", sending.send, (201, 200),
        "Send the body as one message; 200 repeats the answer to the same `Idempotency-Key`.",
        "application/octet-stream",
    ),
    Row(
        "POST", "/v1/queues/{queue}/receive", leases.receive, (201, 204),
        "Receive the first message: its properties, and the `Location` of its lease. 204: none.",
    ),
    Row(
        "GET", "/v1/leases/{lease}", leases.read, (200, 206),
        "The body, or the range of it that `Range` asks for; renews the lease.",
        changes=False,
    ),
    Row(
        "GET", "/v1/leases/{lease}/properties", leases.properties, (200,),
        "All properties of the message, also those that are too long for headers.", changes=False,
    ),
    Row("PATCH", "/v1/leases/{lease}", leases.renew, (204,), "Renew the lease."),
    Row("DELETE", "/v1/leases/{lease}", leases.settle, (204,), "Commit: the message is received."),
    Row(
        "POST", "/v1/leases/{lease}/abort", leases.give_back, (204,),
        "Abort: the message is back in its place.",
    ),
    Row("POST", "/v1/transactions", transactions.begin, (201,), "Begin a transaction."),
    Row("PATCH", "/v1/transactions/{transaction}", transactions.renew, (204,), "Renew it."),
    Row(
        "POST", "/v1/transactions/{transaction}/commit", transactions.commit, (204,),
        "Commit everything that was sent and received in it.",
    ),
    Row(
        "POST", "/v1/transactions/{transaction}/abort", transactions.abort, (204,),
        "Abort it: nothing was sent, and every received message is back in its place.",
    ),
    Row(
        "OPTIONS", "/v1/uploads", uploads.tell, (204,), "Version and extensions of tus.",
        changes=False, tus=True,
    ),
    Row(
        "POST", "/v1/uploads", uploads.create, (201,), "Begin a resumable upload (tus).", tus=True,
    ),
    Row(
        "HEAD", "/v1/uploads/{upload}", uploads.describe, (200,), "How far the upload is.",
        changes=False, tus=True,
    ),
    Row(
        "PATCH", "/v1/uploads/{upload}", uploads.patch, (204,),
        "Send on; with the last byte the message is sent.", "application/offset+octet-stream",
        tus=True,
    ),
    Row(
        "DELETE", "/v1/uploads/{upload}", uploads.terminate, (204,), "Drop the upload.", tus=True,
    ),
    Row(
        "GET", "/v1/outcome", transactions.outcome, (200,),
        "How the transaction `?id=` has ended; settles a send or receive in doubt.",
        changes=False,
    ),
)  # fmt: skip
DOCUMENT: Final = "/v1/openapi.json"


def _routes() -> list[BaseRoute]:
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(row.path, []).append(row)
    paths = [Route(DOCUMENT, _document, methods=["GET"])]
    for path, rows in found.items():
        # A queue of another manager has slashes in its name.
        pattern = path.replace("{queue}", "{queue:path}")
        paths.append(Route(pattern, _Methods(rows)))
    # The longer ones first: a name of a queue could be anything.
    paths.sort(key=lambda each: -each.path.count("/"))
    return [*paths, Route("/v1", _Unknown()), Route("/v1/{rest:path}", _Unknown())]


async def _document(_: Request) -> Response:
    return Response(msgspec.json.encode(document(ROWS)), media_type="application/json")


class _Unknown:
    """All other paths, by any method: a function would answer some methods only."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await no_such_path(Request(scope))(scope, receive, send)


def no_such_path(request: Request, _: Exception | None = None) -> Response:
    """The answer for a path that nothing answers."""
    sentence = f"there is no {request.scope['path']}; see {DOCUMENT}"
    return problem(HttpRefusal(404, "no-such-path", sentence))


class _Methods:
    """All methods at one path."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.methods = {row.method: Endpoint(row, _parameters(row)) for row in rows}
        self._is_tus = any(row.tus for row in rows)
        if "GET" in self.methods:
            self.methods.setdefault("HEAD", self.methods["GET"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if self._is_tus:
            send = _naming_tus(send)
            method = Headers(scope=scope).get(uploads.METHOD_OVERRIDE, method)
        endpoint = self.methods.get(method)
        if endpoint is not None:
            await endpoint(scope, receive, send)
            return
        allowed = ", ".join(sorted(self.methods))
        sentence = f"{method} is not for {scope['path']}; use {allowed}"
        refused = HttpRefusal(405, "method-not-allowed", sentence, {"Allow": allowed})
        await problem(refused)(scope, receive, send)


def _parameters(row: Row) -> list[str] | None:
    """The names that may stand behind the question mark; None where any may, as tus has it."""
    return None if row.tus else [name for name, *_ in QUERIES.get(row.path, ())]


def _naming_tus(send: Send) -> Send:
    """Each answer names the version of tus, also one that refuses."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(uploads.TUS)
        await send(message)

    return named


routes: Final = _routes()
"""For an application whose state has `token_holders`."""
