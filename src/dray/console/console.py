"""The object that each room of the console works with: connections, templates, what is allowed.

A caller whose rights a request has gets one connection. A template escapes every value, and a name
that nobody gave is an error.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dray.aio import Manager
from dray.client.awaited.opening import Opening
from dray.console.http.limits import BODIES_AT_ONCE_MAX, BoundedCount, Greetings
from dray.console.visitors import Visitor
from dray.model.callers import Credential
from dray.model.words import counted, size_text, time_text

FRAGMENT: Final = "Dray-Fragment"
"""The script sends this header: it wants a part of a page and not a whole one."""
VISITOR: Final = "dray.visitor"
CONSOLE: Final = Credential()
"""The console itself."""
Connecting = Callable[[Credential], "Opening[Manager]"]
"""Connects as a caller."""
_CONNECTIONS_MAX: Final = 64
"""Callers at a time; the one that was silent longest loses its connection and gets a new one."""
_CODE: Final = re.compile(r"`([^`]*)`")
_WORD: Final = re.compile(r"[a-z'-]+[,;]?(?: |$)")
"""A plain first word: no caller `token:ada`, no address, no queue as in `orders: it is full`."""
_INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and marks that turn the direction of the text behind them: with such a mark a
label would look like another one."""
_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


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
        self.name = name
        self._kept: dict[type[Kept], Kept] = {}
        self._bodies = BoundedCount(
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

    @contextmanager
    def body(self, request: Request) -> Iterator[None]:
        """One file on its way to or from a visitor; raises `HttpRefusal` if there are too many."""
        with visitor_of(request).bodies.one(), self._bodies.one():
            yield

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
            "manager_name": self.name if visitor is not None else "closed",
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


class Callers:
    """The open connections, by credential. A connection that breaks is made anew by the client."""

    def __init__(self, connect: Connecting) -> None:
        """Connect when a caller first asks for something."""
        self._connect = connect
        self._open: OrderedDict[Credential, Manager] = OrderedDict()
        self._greetings = Greetings()

    async def manager(self, caller: Credential = CONSOLE) -> Manager:
        """The connection of a caller; raises `ConnectionLost` and `AccessDenied`."""
        found = self._open.get(caller)
        if found is not None:
            self._open.move_to_end(caller)
            return found
        async with self._greetings.of(caller):
            found = self._open.get(caller) or await self._connect(caller)
            self._open[caller] = found
            await self._close_surplus()
        return found

    async def forget(self, caller: Credential) -> None:
        """Close the connection of a caller."""
        found = self._open.pop(caller, None)
        if found is not None:
            await found.close()

    async def close(self) -> None:
        """Close all of them."""
        while self._open:
            _, manager = self._open.popitem()
            await manager.close()

    async def _close_surplus(self) -> None:
        while len(self._open) > _CONNECTIONS_MAX:
            # The console's own connection looks at the queues for everybody.
            oldest = next(each for each in self._open if each != CONSOLE)
            await self.forget(oldest)


@cache
def templates() -> Environment:
    """The templates of the console, loaded once."""
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    found.filters |= {
        "size": size_text,
        "count": "{:,}".format,
        "counted": counted,
        "moment": time_text,
        "ago": _ago,
        "capitalize_first": capitalized,
        "as_sentence": as_sentence,
    }
    found.globals |= {"asset": _asset}
    return found


def _visible(value: object) -> object:
    """A value as a page shows it. The filter `e` leaves one as it is, for a field of a form."""
    if type(value) is str and not value.isprintable():
        return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


def capitalized(sentence: str) -> str:
    """An error as a sentence of its own: its first letter large, unless it begins with a name."""
    return sentence[:1].upper() + sentence[1:] if _WORD.match(sentence) else sentence


def as_sentence(words: str) -> Markup:
    """An error as a sentence of its own, with its end; what stands in backticks is code."""
    end = "" if words.endswith((".", "?", "!")) else "."
    pieces = _CODE.split(_INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", capitalized(words)) + end)
    return Markup("").join(
        Markup("<code>{}</code>").format(each) if at % 2 else each for at, each in enumerate(pieces)
    )


def _ago(seconds: float | None) -> str:
    """A span in one unit, as people say it."""
    if seconds is None:
        return ""
    for unit, span in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= span:
            return f"{int(seconds // span)} {unit}"
    return f"{int(seconds)} s"


@cache
def _asset(name: str) -> str:
    """The address of a static file; another content has another address."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"
