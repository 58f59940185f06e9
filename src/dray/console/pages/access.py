"""Access: rules, connections, tokens, peers, and the last acts of callers."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.aio import Manager
from dray.console.form import read_form, whole_number
from dray.console.pages.asking import Shared, ask, at, done, link, show
from dray.errors import AccessDenied, Misuse
from dray.model.tokens import TokenInfo

_PATH: Final = "/access"
_DAY_S: Final = 86_400.0
_DAYS_MAX: Final = 3_650


async def _access(request: Request) -> Response:
    console, manager = await at(request)
    shared = console.kept(Shared)
    info = await shared.get(manager, "access", manager.access)
    tokens = await shared.get(manager, "tokens", lambda: _tokens(manager))
    peers = await shared.get(manager, "peers", manager.peers)
    return show(request, "access", info=info, tokens=tokens, peers=peers, to=link)


async def _tokens(manager: Manager) -> list[TokenInfo] | None:
    """The tokens; None for callers that may not see them."""
    try:
        return await manager.tokens()
    except AccessDenied:
        return None


async def _ask(request: Request) -> Response:
    name = request.query_params.get("name", "")
    return ask(
        request,
        title=f"Revoke the token {name}?",
        goes=[f"the right of its holders to call as token:{name}, and their open connections"],
        button="Revoke",
        action=f"{_PATH}/act",
        fields=[("name", name), ("act", "revoke")],
        back=_PATH,
    )


async def _act(request: Request) -> Response:
    console, manager = await at(request)
    form = await read_form(request)
    name, act = form.text("name").strip(), form.text("act")
    if act == "revoke":
        await manager.revoke_token(name)
        return done(request, manager, f"The token {name} is revoked.", _PATH)
    if act != "create":
        raise Misuse(f"a token cannot be made to {act!r}; use the buttons of the page")
    written = form.text("days").strip()
    days = whole_number(written)
    if written and not (days and days <= _DAYS_MAX):
        raise Misuse(f"a token lasts 1 to {_DAYS_MAX} days, or for ever; write a whole number")
    token = await manager.create_token(name, days * _DAY_S if days else None)
    console.kept(Shared).forget(manager)
    # It is shown this once, so there is no redirect to a page that would show it again.
    return console.page(request, "pages/token.html", name=name, token=token)


routes: list[BaseRoute] = [
    Route(_PATH, _access),
    Route(f"{_PATH}/ask", _ask),
    Route(f"{_PATH}/act", _act, methods=["POST"]),
]
