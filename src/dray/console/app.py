"""The app of the console: the routes of its rooms behind the door, and its errors as pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from dray.aio import Manager
from dray.console import pages, sample, v1
from dray.console.console import STATIC, Console, Tab, console_of, visitor_of
from dray.console.door import START, Door, Doorkeeping
from dray.console.http import limits
from dray.console.http.refusal import HttpRefusal
from dray.console.http.silence import silent, unless_silent
from dray.console.statuses import status_of
from dray.errors import DrayError

_log = logging.getLogger(__name__)
_HUNG_UP: Final = 499
_BUG = "the console failed, which is a bug of Dray; its log says where"
TABS: list[Tab] = [*pages.tabs, *sample.tabs]


def application(console: Console, keeping: Doorkeeping, holders: v1.TokenHolders) -> ASGIApp:
    """The whole console behind its door; `holders` are the callers of `/v1`."""
    programs = [*v1.routes, *v1.operator_routes(_own)]
    routes: list[BaseRoute] = [*map(_in_time, [*pages.routes, *sample.routes]), *programs]
    if not any(isinstance(each, Route) and each.path == "/" for each in routes):
        routes.append(Route("/", _home))
    return behind_door(console, keeping, routes, holders)


def behind_door(
    console: Console,
    keeping: Doorkeeping,
    routes: Sequence[BaseRoute],
    holders: v1.TokenHolders | None = None,
) -> ASGIApp:
    """Some routes behind a door."""
    static = Mount("/static", StaticFiles(directory=STATIC))
    app = Starlette(
        routes=[static, *routes],
        exception_handlers={
            DrayError: _dray_error,
            HttpRefusal: _refusal,
            ClientDisconnect: _gone,
            HTTPException: _http_error,
            Exception: _bug,
        },
    )
    app.state.console = console
    app.state.token_holders = holders
    return Door(app, keeping, console)


def _in_time(route: BaseRoute) -> BaseRoute:
    """The same page, which says so when the queue manager hangs.

    An act may take its time, as long as the queue manager answers other questions.
    """
    assert isinstance(route, Route)

    async def shown(request: Request) -> Response:
        if request.method not in {"GET", "HEAD"}:
            info = (await console_of(request).manager(request)).info
            acted: Response = await unless_silent(info, route.endpoint(request), changes=True)
            return acted
        try:
            async with asyncio.timeout(limits.ANSWER_S) as limit, visitor_of(request).pages:
                answer: Response = await route.endpoint(request)
                return answer
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise silent(changes=False) from error

    return Route(route.path, shown, methods=list(route.methods or ()))


async def _own(request: Request) -> Manager:
    """The console's own connection."""
    return await console_of(request).callers.manager()


async def _home(request: Request) -> Response:
    del request
    return RedirectResponse(TABS[0].path, HTTPStatus.SEE_OTHER)


async def _dray_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DrayError)
    return console_of(request).error(request, status_of(error), str(error), error.code)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpRefusal)
    return console_of(request).error(request, HTTPStatus(error.status), str(error), error.code)


async def _gone(request: Request, error: Exception) -> Response:
    """The browser went away before its request was whole; nobody reads this answer."""
    del request, error
    return Response(status_code=_HUNG_UP)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said, headers = "there is no such page; choose one above", dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        said = "this address is that of a button, and no page; choose a page above"
        if "GET" in headers.get("Allow", ""):
            said = f"{request.method} is not for this page; open it in a browser"
    elif error.status_code != HTTPStatus.NOT_FOUND:
        said = error.detail
    answer = console_of(request).error(request, HTTPStatus(error.status_code), said)
    answer.headers.update(headers)
    return answer


async def _bug(request: Request, error: Exception) -> Response:
    # The path only: queries and bodies may hold what somebody wrote. A start link holds a secret.
    path = START if request.url.path.startswith(START) else request.url.path
    _log.error("%s %s failed", request.method, path, exc_info=error)
    return console_of(request).error(request, HTTPStatus.INTERNAL_SERVER_ERROR, _BUG)
