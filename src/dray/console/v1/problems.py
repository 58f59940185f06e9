"""From an error to an answer over HTTP, with a body that explains it.

The body is `application/problem+json` (RFC 9457): the stable code of the error, its status, one
sentence that ends with what to do, and the fields of the error.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from dray.console.http.refusal import HttpRefusal
from dray.console.statuses import status_of
from dray.errors import DrayError

PROBLEM: Final = "application/problem+json"
_AGAIN_S: Final = {429: "1", 503: "1"}
"""Seconds after which a client may try again, by status."""


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
