"""From an error to an answer over HTTP, with a body that explains it.

The body is `application/problem+json` (RFC 9457): the stable code of the error, its status, one
sentence that ends with what to do, and the fields of the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from dray.console.statuses import status_of
from dray.errors import DrayError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBLEM: Final = "application/problem+json"
_AGAIN_S: Final = {429: "1", 503: "1"}
"""Seconds after which a client may try again, by status."""


class HttpRefusal(Exception):  # noqa: N818 - named like the errors of Dray
    """An answer that `/v1` gives by itself: a status, a code, and one sentence with what to do."""

    def __init__(
        self, status: int, code: str, sentence: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Take what is answered."""
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def problem(error: DrayError | HttpRefusal) -> Response:
    """The answer that tells of an error."""
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
