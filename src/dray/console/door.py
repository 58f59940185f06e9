"""The door of the console: every request passes here first.

1. `Host` names the console, so that no other name can be rebound to its address.
2. `Origin`, where a browser sends it, is the console's own; a request that changes something has
   one, or comes from no browser and carries no cookie.
3. A console for reading refuses every method that changes something.
4. A cookie stands for a session, which the start link or a token began. `/v1` takes no cookie.
   A browser that presents a certificate needs neither: it is `cert:NAME` with that one's rights.

Every answer forbids scripts, styles and requests that are not the console's own.
"""

from __future__ import annotations

import logging
import os
import secrets
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dray.console.console import CONSOLE, VISITOR, Console
from dray.console.form import read_form
from dray.console.http.protocol import CERTIFIED, STRANGER
from dray.console.http.refusal import HttpRefusal
from dray.console.statuses import status_of
from dray.console.visitors import Visitors
from dray.errors import AccessDenied, DrayError
from dray.model.callers import Credential
from dray.model.names import shown_host
from dray.own_files import create_own, make_own_folder

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WITHOUT_SESSION: Final = ("/static/", "/v1/", "/metrics", "/healthz", "/readyz")
"""Style sheet and script hold nothing secret. `/v1` and `/metrics` ask for tokens by themselves."""
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
"""A browser says so of requests from elsewhere; another port of this host is "same-site"."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_TOKEN_CHARACTERS_MAX: Final = 1_000
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer, browsers would send the Origin of our own forms as null.
    "Referrer-Policy": "same-origin",
}
_STRANGE_NAME: Final = (
    "this console is not known by the name {host}; open it by the address that it printed"
)
_FOREIGN: Final = "the request came from another site, {origin}; use the page of the console"
_NO_ORIGIN: Final = "the request does not say which page it came from; use the page of the console"
_READ_ONLY: Final = "this console only shows things; start it without --read-only to change them"
_VOID: Final = (
    "this link has been used, or a newer one has replaced it; {file} holds the one that is valid"
)
START: Final = "/start/"
_TOKEN_BYTES: Final = 32
"""256 bits, which nobody guesses."""


class Doorkeeping:
    """Decides who comes in at a console that listens at one place."""

    def __init__(
        self,
        names: frozenset[str],
        *,
        secure: bool = False,
        start: StartLink | None = None,
        cookie: str = "dray-console",
    ) -> None:
        """Let in by `start`, or without it by the token of a caller of the queue manager.

        Browsers may call it by `names`; `secure` says that they use TLS.
        """
        self.start = start
        self.visitors = Visitors()
        self.secure = secure
        self.cookie = f"__Host-{cookie}" if secure else cookie
        self._names = names

    def rename(self, names: frozenset[str]) -> None:
        """Let browsers call the console by other names from now on."""
        self._names = names

    def refusal(self, request: Request, *, read_only: bool) -> tuple[HTTPStatus, str] | None:
        """Why a request is refused before anybody looks at its session; None if it is not."""
        hosts = request.headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_ours(_without_port(host)):
            return HTTPStatus.MISDIRECTED_REQUEST, _STRANGE_NAME.format(host=host or "(none)")
        origin = request.headers.get("origin")
        own = f"{'https' if self.secure else 'http'}://{host}"
        if origin is not None and origin.lower() != own:
            return HTTPStatus.FORBIDDEN, _FOREIGN.format(origin=origin)
        # A browser presents a certificate to a page that another site has put into its own, too.
        site = request.headers.get("sec-fetch-site", "")
        if site in _ELSEWHERE and request.headers.get("sec-fetch-mode") != "navigate":
            return HTTPStatus.FORBIDDEN, _FOREIGN.format(origin=site)
        if request.method in _READS or _is_without_session(request.url.path):
            return None
        if origin is None:
            return HTTPStatus.FORBIDDEN, _NO_ORIGIN
        if read_only and request.url.path not in {SIGN_IN, SIGN_OUT}:
            return HTTPStatus.FORBIDDEN, _READ_ONLY
        return None

    def _is_ours(self, name: str) -> bool:
        """Whether a name is the console's; one of a certificate may begin with "*."."""
        return name in self._names or f"*.{name.partition('.')[2]}" in self._names

    def set_cookie(self, response: Response, value: str) -> None:
        """Give a session to the browser, for as long as it runs."""
        response.set_cookie(
            self.cookie, value, path="/", secure=self.secure, httponly=True, samesite="strict"
        )


_log = logging.getLogger(__name__)
_NO_NEXT: Final = (
    "the console cannot write its next start link, so this one is void; its log says where. Start"
    " the console again"
)


class Door:
    """Stands before the app of a console, as an app itself."""

    def __init__(self, app: ASGIApp, keeping: Doorkeeping, console: Console) -> None:
        """Pass what may come in to `app`."""
        self._app = app
        self._keeping = keeping
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _guard(MutableHeaders(scope=message), request.url.path)
            await send(message)

        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            # Nobody reads an answer any more.
            return
        await (answer or self._app)(scope, receive, send_guarded)

    async def _answer(self, request: Request) -> Response | None:
        """The door's own answer; None lets the request in."""
        keeping, path = self._keeping, request.url.path
        refusal = keeping.refusal(request, read_only=self._console.read_only)
        if refusal is not None:
            status, sentence = refusal
            return self._refused(request, status, sentence)
        cookie = request.cookies.get(keeping.cookie, "")
        visitor = keeping.visitors.find(cookie) if cookie else None
        if path.startswith(START):
            return self._started(request, path.removeprefix(START), is_in=visitor is not None)
        if path == SIGN_IN and request.method == "POST" and keeping.start is None:
            return await self._signed_in(request)
        if path == SIGN_OUT and request.method == "POST":
            keeping.visitors.dismiss(cookie)
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        if _is_without_session(path):
            return None
        if visitor is None:
            caller = Credential(caller=request.scope.get("state", {}).get(CERTIFIED, ""))
            if caller == CONSOLE:
                return self._shut(request, HTTPStatus.UNAUTHORIZED)
            try:
                await self._console.callers.manager(caller)
            except AccessDenied as error:
                return self._shut(request, HTTPStatus.FORBIDDEN, str(error))
            except DrayError as error:
                # The queue manager is away: nobody can say yet what this visitor may do.
                return self._refused(request, status_of(error), str(error))
            visitor = keeping.visitors.certified(caller)
        request.scope[VISITOR] = visitor
        return None

    def _started(self, request: Request, token: str, *, is_in: bool) -> Response:
        """Exchange the start link for a session."""
        start = self._keeping.start
        home = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        if start is None:
            return self._shut(request, HTTPStatus.UNAUTHORIZED)
        try:
            # A look at the headers, as some programs that show links take, does not use it up.
            exchanged = request.method == "GET" and start.is_exchanged(token)
        except OSError as error:
            # The address of the request holds the token, so the line names the file only.
            _log.error(
                "the next start link cannot be written to %s: %s", start.file, error.strerror
            )
            return self._refused(request, HTTPStatus.INTERNAL_SERVER_ERROR, _NO_NEXT)
        if exchanged:
            self._keeping.set_cookie(home, self._keeping.visitors.admit())
            return home
        if is_in:
            return home
        return self._refused(request, HTTPStatus.FORBIDDEN, _VOID.format(file=start.file))

    async def _signed_in(self, request: Request) -> Response:
        """Begin a session with a token, if the queue manager knows it; show the page asked for."""
        keeping, page = self._keeping, "/"
        request.scope["state"][STRANGER]()
        try:
            form = await read_form(request)
            token, page = form.text("token").strip(), _own_page(form.text("page"))
            if not 0 < len(token) <= _TOKEN_CHARACTERS_MAX:
                return self._shut(request, HTTPStatus.BAD_REQUEST, "write your token", page)
            await self._console.callers.manager(Credential(token))
        except DrayError as error:
            return self._shut(request, status_of(error), str(error), page)
        except HttpRefusal as refusal:
            return self._refused(request, HTTPStatus(refusal.status), str(refusal))
        answer = RedirectResponse(page, HTTPStatus.SEE_OTHER)
        keeping.set_cookie(answer, keeping.visitors.admit(Credential(token)))
        return answer

    def _shut(
        self, request: Request, status: HTTPStatus, sentence: str = "", page: str = "/"
    ) -> Response:
        """Say how to come in, and keep in mind which page was asked for."""
        start = self._keeping.start
        if request.method == "GET":
            query = f"?{request.url.query}" if request.url.query else ""
            page = _own_page(f"{request.url.path}{query}")
        return self._console.page(
            request,
            "door.html",
            status=status,
            file="" if start is None else str(start.file),
            page=page,
            sentence=sentence,
        )

    def _refused(self, request: Request, status: HTTPStatus, sentence: str) -> Response:
        return self._console.error(request, status, sentence)


def _own_page(asked: str) -> str:
    """The page to show after a sign-in: never another site, and not what only opens the door."""
    is_own = asked.startswith("/") and asked[1:2] not in {"/", "\\"} and asked.isprintable()
    return asked if is_own and not asked.startswith((SIGN_IN, START)) else "/"


def _guard(headers: MutableHeaders, path: str) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if path.startswith(START):
        headers["Referrer-Policy"] = "no-referrer"
    if not path.startswith("/static/"):
        headers.setdefault("Cache-Control", "no-store")


def _is_without_session(path: str) -> bool:
    return path.startswith(_WITHOUT_SESSION)


def _without_port(host: str) -> str:
    """The name in a `Host` header, in brackets if it is an IPv6 address; "" if it is no host."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return ""
    name = parts.hostname or ""
    shown = shown_host(name)
    return shown if host in {shown, f"{shown}:{parts.port}"} else ""


class StartLink:
    """The link that opens a console once: a token in an address, in a file of its owner.

        http://127.0.0.1:7341/start/TOKEN

    The first use of the link begins a session and makes the link void. The file then holds the next
    link, so that the same user can open another browser.
    """

    def __init__(self, file: Path, origin: str) -> None:
        """Make a first link and write it to `file`; raises OSError."""
        self.file = file
        self._origin = origin
        self._token = ""
        make_own_folder(file.parent)
        self._renew()

    @property
    def url(self) -> str:
        """The link."""
        return f"{self._origin}{START}{self._token}"

    def is_exchanged(self, token: str) -> bool:
        """Whether this was the token of the link; if so, it is void from now on."""
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        self._renew()
        return True

    def remove(self) -> None:
        """Remove the file."""
        self.file.unlink(missing_ok=True)

    def _renew(self) -> None:
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        descriptor = create_own(self.file)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{self.url}\n")
