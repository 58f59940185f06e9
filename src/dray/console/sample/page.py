"""The page of the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from dray.console.console import console_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def _page(request: Request) -> Response:
    console = console_of(request)
    return console.page(request, "sample/page.html")


routes: list[BaseRoute] = [Route("/sample", _page)]
