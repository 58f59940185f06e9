"""The object that each room of the console works with: connections, templates, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dray.aio import Manager
from dray.console.callers import Callers
from dray.console.http.limits import BODIES_AT_ONCE_MAX, BoundedCount
from dray.console.templating import templates
from dray.console.visitors import Visitor

FRAGMENT: Final = "Dray-Fragment"
"""The script sends this header: it wants a part of a page and not a whole one."""
VISITOR: Final = "dray.visitor"


class Kept(Protocol):
    """State of a room that lives as long as the console; it is made without arguments."""

    async def close(self) -> None:
        """Let go of everything."""


_Kept = TypeVar("_Kept", bound=Kept)


@dataclass(frozen=True)
class Tab:
    """One entry of the navigation."""

    path: str
    label: str


class Console:
    """Connections and templates for the routes. A handler finds it with `console_of(request)`."""

    def __init__(
        self,
        callers: Callers,
        tabs: list[Tab],
        *,
        read_only: bool,
        name: str,
        others: Mapping[str, Callers] | None = None,
    ) -> None:
        """Take the connections, the navigation, and the name of the queue manager.

        `others` are further queue managers by address, which the console asks in its own name.
        """
        self.callers = callers
        self.others = dict(others or {})
        self.read_only = read_only
        self._tabs = tabs
        self._name = name
        self._kept: dict[type[Kept], Kept] = {}
        self.bodies = BoundedCount(
            BODIES_AT_ONCE_MAX, 503, "busy", f"{BODIES_AT_ONCE_MAX} files are on their way to and"
            " from browsers; try again when one of them is done",
        )  # fmt: skip

    def kept(self, kind: type[_Kept]) -> _Kept:
        """The state of a room, by its class; made when it is first asked for."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind()
        assert isinstance(found, kind)
        return found

    async def close(self) -> None:
        """Close what the rooms keep, then the connections."""
        for each in self._kept.values():
            await each.close()
        for other in self.others.values():
            await other.close()
        await self.callers.close()

    async def manager(self, request: Request) -> Manager:
        """The queue manager, with the rights of the visitor."""
        return await self.callers.manager(visitor_of(request).caller)

    def page(
        self,
        request: Request,
        template: str,
        *,
        status: int = HTTPStatus.OK,
        headers: dict[str, str] | None = None,
        **values: object,
    ) -> Response:
        """A page, or a part of one, from a template; it knows the values that are given.

        Every template also knows `path`, `tabs`, `read_only`, `manager_name` and `said`, the
        sentences of `tell`.
        """
        visitor: Visitor | None = request.scope.get(VISITOR)
        is_part = FRAGMENT in request.headers
        shared = {
            "path": request.url.path,
            "tabs": self._tabs if visitor is not None else [],
            # The holder of a certificate would come in again by it.
            "can_leave": visitor is not None and not visitor.caller.caller,
            "read_only": self.read_only,
            # Nobody learns the name from outside.
            "manager_name": self._name if visitor is not None else "closed",
            "said": visitor.hear() if visitor is not None and not is_part else [],
        }
        text = templates().get_template(template).render(shared | values)
        return HTMLResponse(text, status_code=status, headers=headers)

    def error(
        self, request: Request, status: HTTPStatus, sentence: str, code: str = ""
    ) -> Response:
        """An error as a page, or as the part of one that the script asked for."""
        template = "error_part.html" if FRAGMENT in request.headers else "error.html"
        return self.page(
            request, template, status=status, sentence=sentence, code=code, status_line=status
        )

    def tell(self, request: Request, sentence: str, kind: str = "good") -> None:
        """Say something at the top of the visitor's next page; `kind` is "good" or "bad"."""
        visitor_of(request).tell(sentence, kind)

    def go_to(self, path: str) -> Response:
        """Send the browser to a page after a form."""
        return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def console_of(request: Request) -> Console:
    """The console that serves a request."""
    console = request.app.state.console
    assert isinstance(console, Console)
    return console


def visitor_of(request: Request) -> Visitor:
    """The visitor whom the door let in."""
    visitor = request.scope[VISITOR]
    assert isinstance(visitor, Visitor)
    return visitor
