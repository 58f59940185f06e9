"""`/metrics`, `/healthz` and `/readyz` where programs are served, too.

Beside a queue manager they are asked of its own small listener over a Unix socket, which needs no
token. A console is a client: it asks its own connection for health, and the caller who shows a
token for the metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from dray.aio import Manager
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, Endpoint, Row, problem
from dray.errors import DrayError
from dray.metrics.http import ANSWER_S, LISTED_S, said_of_room

METRICS, HEALTH, READINESS = "/metrics", "/healthz", "/readyz"
OPERATORS: Final = (METRICS, HEALTH, READINESS)
_ANSWERS_S: Final = {
    METRICS: 2 * (ANSWER_S + LISTED_S), HEALTH: 2 * ANSWER_S, READINESS: 2 * ANSWER_S
}  # fmt: skip
"""The listener answers within its own time, or says that the queue manager does not."""
_PIECE_BYTES: Final = 1 << 20


async def passed_on(socket_path: str, request: Request) -> Response:
    """Pass a question of an operator on to the queue manager's own listener."""
    try:
        async with asyncio.timeout(_ANSWERS_S[request.scope["path"]]):
            reader, writer = await asyncio.open_unix_connection(socket_path)
            try:
                writer.write(f"GET {request.scope['path']} HTTP/1.0\r\n\r\n".encode("ascii"))
                answer = bytearray()
                while piece := await reader.read(_PIECE_BYTES):
                    answer += piece
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return problem(_silent())
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    kinds = [line.partition(":")[2].strip() for line in rest if line.startswith("Content-Type:")]
    return Response(body, int(first.split()[1]), media_type=kinds[0])


def operator_routes(own: Callable[[Request], Awaitable[Manager]]) -> list[BaseRoute]:
    """The routes at a console; `own` gives its own connection."""

    async def health(request: Request) -> Response:
        try:
            async with asyncio.timeout(ANSWER_S):
                info = await (await own(request)).info()
        except TimeoutError:
            return problem(_silent())
        except DrayError as error:
            return PlainTextResponse(f"{error}\n", 503)
        if request.scope["path"] == HEALTH:
            return PlainTextResponse("alive\n")
        low = said_of_room(info)
        return PlainTextResponse(low or "ready\n", 503 if low else 200)

    metrics = Endpoint(Row("GET", METRICS, _metrics, (200,), "Metrics.", changes=False))
    return [Route(METRICS, metrics), Route(HEALTH, health), Route(READINESS, health)]


async def _metrics(call: Call) -> Response:
    from dray.metrics.collector import CONTENT_TYPE, exposition

    manager = call.caller.manager
    told = exposition(await manager.info(), await manager.queues())
    return Response(told, media_type=CONTENT_TYPE)


def _silent() -> HttpRefusal:
    return HttpRefusal(503, "connection-lost", "the queue manager does not answer; look at its log")
