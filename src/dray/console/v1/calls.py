"""One request under `/v1`: who calls, what is asked, and the answer to an error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dray.aio import Transaction
from dray.console.http.bodies import RequestBody
from dray.console.http.protocol import CERTIFIED, HANG_UP
from dray.console.http.refusal import HttpRefusal
from dray.console.http.silence import unless_silent
from dray.console.statuses import status_of
from dray.console.v1.held import Ended, Holding, Holdings
from dray.console.v1.holders import TokenHolder, TokenHolders
from dray.console.v1.limits import JSON_BYTES_MAX
from dray.console.v1.properties import TRANSACTION
from dray.errors import DrayError, InvalidQueueName

_log = logging.getLogger(__name__)
Asked = TypeVar("Asked")
_JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
_AGAIN_S: Final = {429: "1", 503: "1"}
"""Seconds after which a client may try again, by status."""


_WRONG_BYTE: Final = "\ufffd"


class Call(NamedTuple):
    """A request of a caller."""

    request: Request
    caller: TokenHolder

    def named(self, name: str) -> str:
        """A part of the path. Raises `InvalidQueueName` for one that is not UTF-8.

        Starlette puts U+FFFD in the place of each wrong byte, so many names would mean one queue.
        """
        said = str(self.request.path_params[name])
        if _WRONG_BYTE in said and not _is_utf8(self.request.scope["raw_path"]):
            raise InvalidQueueName("a name in the path is not UTF-8; send UTF-8, percent-encoded")
        return said

    def header_names(self) -> list[str]:
        """The names of all headers, in lower case, those that come twice among them."""
        return [name.decode("latin-1") for name, _ in self.request.scope["headers"]]

    async def json(self, kind: type[Asked]) -> Asked:
        """The body as JSON; raises `HttpRefusal`."""
        body, is_whole = await RequestBody(self.request).beginning(JSON_BYTES_MAX)
        if not is_whole:
            raise HttpRefusal(
                413, "body-too-large", f"this request takes at most {JSON_BYTES_MAX} bytes of"
                " JSON; send less",
            )  # fmt: skip
        try:
            return msgspec.json.decode(bytes(body) or b"{}", type=kind)
        except msgspec.MsgspecError as error:
            raise HttpRefusal(
                400, "bad-json", f"the body is not what is expected: {error}; see the reference"
            ) from error

    def transaction(self) -> HeldTransaction | None:
        """The transaction that a header names; raises `HttpRefusal`."""
        name = self.request.headers.get(TRANSACTION)
        return None if name is None else self.caller.transactions.find(name)  # type: ignore[return-value]


class HeldTransaction(Holding):
    """A transaction of several requests."""

    def __init__(self, transaction: Transaction, leases: Holdings) -> None:
        """Take a transaction that was begun, and the leases of its caller."""
        super().__init__()
        self.transaction = transaction
        self._leases = leases
        self._own: list[Holding] = []

    def add(self, lease: Holding) -> None:
        """Hold a message that was received in it."""
        self._leases.add(lease)
        self._own.append(lease)

    def release(self, end: Ended) -> None:
        """Its messages are held no longer: it has ended."""
        for lease in self._own:
            self._leases.forget(lease, end)

    async def abort(self) -> None:
        """Give everything back."""
        self.release(Ended.ABORTED)
        await self.transaction.abort()


Handler = Callable[[Call], Awaitable[Response]]


class Row(NamedTuple):
    """One method at one path."""

    method: str
    path: str
    handler: Handler
    answers: tuple[int, ...]
    """Statuses of success."""
    help: str
    body: str = ""
    """The body of a request: "json", a media type, or nothing."""
    changes: bool = True
    """Whether it is refused where nothing may be changed."""
    tus: bool = False
    """Whether it is part of tus, whose answers name its version."""


class Endpoint:
    """Answers one route: finds the caller, lets a handler answer, and tells of errors."""

    def __init__(self, row: Row, queries: Sequence[str] | None = None) -> None:
        """Take the row of the route, and the parameters that it takes; None for any."""
        self._row = row
        self._queries = queries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = False

        async def noting(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
            nonlocal begun
            begun = True
            await send(message)

        request, holders = Request(scope, receive), holders_of(scope)
        try:
            check_framing(request)
            if self._queries is not None:
                _check_query(request, self._queries)
            if holders.read_only and self._row.changes:
                raise HttpRefusal(
                    403, "read-only", "this server was started with --read-only, so it changes"
                    " nothing; use another one",
                )  # fmt: skip
            certified = scope.get("state", {}).get(CERTIFIED, "")
            async with holders.of(request.headers.get("authorization"), certified) as caller:

                async def work() -> None:
                    answer = await self._row.handler(Call(request, caller))
                    await answer(scope, receive, noting)

                await unless_silent(caller.manager.info, work(), changes=self._row.changes)
        except ClientDisconnect:
            return
        except (DrayError, HttpRefusal) as error:
            if begun:
                # The client sees that the body ends too early.
                _log.warning("an answer broke off on its way to a client: %s", error)
                scope["state"][HANG_UP]()
                return
            await problem(error)(scope, receive, send)


def holders_of(scope: Scope) -> TokenHolders:
    """The callers of the application that serves a request."""
    holders = scope["app"].state.token_holders
    assert isinstance(holders, TokenHolders)
    return holders


def _is_utf8(path: bytes) -> bool:
    try:
        unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_framing(request: Request) -> None:
    """Refuse a request of which two servers could see different ends."""
    names = [name for name, _ in request.scope["headers"]]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise HttpRefusal(
            400, "bad-framing", "the request has Content-Length and Transfer-Encoding; send one of"
            " them",
            {"Connection": "close"},
        )  # fmt: skip
    if names.count(b"authorization") > 1:
        raise HttpRefusal(400, "bad-header", "Authorization is given twice; send it once")


def _check_query(request: Request, known: Sequence[str]) -> None:
    """Refuse a misspelt parameter: without it the request would mean something else."""
    for name in request.query_params:
        if name not in known:
            takes = f"{request.url.path} takes {' and '.join(known) or 'none'}"
            raise HttpRefusal(400, "bad-query", f"{name[:80]!r} is no parameter; {takes}")


def answered(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value, enc_hook=str), status, headers, media_type=_JSON)


def nothing(status: int = 204, headers: dict[str, str] | None = None) -> Response:
    """An answer without a body."""
    return Response(None, status, headers)


def problem(error: DrayError | HttpRefusal) -> Response:
    """The answer that tells of an error, as `application/problem+json` (RFC 9457).

    It has the stable code of the error, its status, one sentence that ends with what to do, and the
    fields of the error.
    """
    headers: dict[str, str] = {}
    fields: dict[str, object] = {}
    if isinstance(error, HttpRefusal):
        status, headers = error.status, dict(error.headers)
    else:
        status, fields = status_of(error), {"retryable": error.retryable, **error.fields}
    if status in _AGAIN_S:
        headers["Retry-After"] = _AGAIN_S[status]
    told = {"status": status, "code": error.code, "title": error.code, "detail": str(error)}
    body = msgspec.json.encode({**fields, **told}, enc_hook=str)
    return Response(body, status, headers, media_type=PROBLEM)
