"""Shared by the handlers of the pages: answers, parts of pages, questions before an act."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response

from dray.aio import Manager
from dray.console.console import FRAGMENT, Console, console_of

_Answer = TypeVar("_Answer")
_TIMES: Final = 10.0
"""A question that takes long is asked less often: it costs a tenth of the time at most."""


async def at(request: Request) -> tuple[Console, Manager]:
    """The console, and the queue manager with the rights of the visitor."""
    console = console_of(request)
    return console, await console.manager(request)


def show(request: Request, name: str, **values: object) -> Response:
    """A page, or the part of it that the script keeps fresh: `NAME_part.html`."""
    part = "_part" if FRAGMENT in request.headers else ""
    query = f"?{request.url.query}" if request.url.query else ""
    values["here"] = f"{request.url.path}{query}"
    return console_of(request).page(
        request, f"pages/{name}{part}.html", status=HTTPStatus.OK, headers=None, **values
    )


def ask(
    request: Request,
    *,
    title: str,
    goes: Sequence[str],
    button: str,
    action: str,
    fields: Sequence[tuple[str, str]],
    back: str,
    lead: str = "This goes, and nothing brings it back:",
) -> Response:
    """Ask before an act, and say what goes, or what else happens."""
    return console_of(request).page(
        request,
        "pages/ask.html",
        title=title,
        lead=lead,
        goes=goes,
        button=button,
        action=action,
        fields=fields,
        back=back,
    )


def done(request: Request, manager: Manager, sentence: str, path: str) -> Response:
    """Say what was done, on the page to which the browser goes; show nothing that is older."""
    console = console_of(request)
    console.kept(Shared).forget(manager)
    console.tell(request, sentence)
    return console.go_to(path)


def link(path: str, **query: object) -> str:
    """An address of the console."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


class _Question:
    """One question at one connection."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.until = 0.0
        self.answer: object = None


class Shared:
    """Answers that many pages show: asked for once, however many browsers look."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Manager, dict[str, _Question]] = WeakKeyDictionary()

    async def get(
        self,
        manager: Manager,
        question: str,
        ask: Callable[[], Awaitable[_Answer]],
        seconds: float = 1.0,
    ) -> _Answer:
        """The answer, at most so many seconds old, or ten times as old as asking takes."""
        asked = self._asked.setdefault(manager, {}).setdefault(question, _Question())
        async with asked.lock:
            began = time.monotonic()
            if began >= asked.until:
                asked.answer = await ask()
                took = time.monotonic() - began
                asked.until = time.monotonic() + max(seconds, _TIMES * took)
            return asked.answer  # type: ignore[return-value]

    def forget(self, manager: Manager) -> None:
        """Ask anew: something was changed."""
        self._asked.pop(manager, None)

    async def close(self) -> None:
        """Nothing is open."""
