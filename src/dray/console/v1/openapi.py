"""The OpenAPI 3.1 document of `/v1`, made from the table of routes and that of headers."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from dray.console.statuses import STATUSES
from dray.console.v1.calls import PROBLEM, Row
from dray.console.v1.properties import DIRECTIONS, RECEIVED, SENT, Property

QUERIES: Final = {
    "/v1/queues/{queue}/receive": (
        ("wait", {"type": "number", "minimum": 0, "maximum": 300}, "Seconds to wait."),
        ("kind", {"enum": ["any", "message", "large"]}, "Which messages to take."),
    ),
    "/v1/outcome": (("id", {"type": "string"}, "A transaction id."),),
}
"""Parameters that a request may have behind the question mark, by route."""
_HEADERS: Final = {
    ("POST", "/v1/queues/{queue}/messages"): (
        ("Idempotency-Key", "Makes the request safe to repeat; another body under it is 422."),
        ("Dray-Kind", "`message` or `large`; by the size if it is left out."),
        ("Dray-Transaction", "Send in this transaction."),
        ("Dray-Digest", "`blake3` or `sha256`, for a large message."),
        *((each.header, each.help) for each in SENT),
    ),
    ("POST", "/v1/queues/{queue}/receive"): (("Dray-Transaction", "Receive in this transaction."),),
    ("GET", "/v1/leases/{lease}"): (("Range", "One range of bytes."),),
    ("POST", "/v1/uploads"): (
        ("Tus-Resumable", "1.0.0"),
        ("Upload-Length", "Bytes of the body."),
        ("Upload-Metadata", "`queue`, and properties of the message, each in base64."),
    ),
    ("PATCH", "/v1/uploads/{upload}"): (
        ("Tus-Resumable", "1.0.0"),
        ("Upload-Offset", "Where the bytes of this request begin."),
        ("Upload-Checksum", "`sha1`, `sha256` or `md5`, a space, and the digest in base64."),
    ),
}
_PART: Final = re.compile(r"\{([a-z]+)\}")
_TEXT: Final = {"type": "string"}
_BYTES: Final[dict[str, Any]] = {"application/octet-stream": {"schema": {}}}
_JSON: Final = {"application/json": {"schema": {"type": "object"}}}


def document(rows: Iterable[Row]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dray",
            "version": importlib.metadata.version("dray"),
            "description": "Send and receive messages of any size, exactly once and in order.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {"certificate": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            },
            "schemas": {"Problem": _PROBLEM_SCHEMA},
        },
    }


_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "Why a request failed. `detail` is one sentence that ends with what to do.",
    "required": ["status", "code", "title", "detail"],
    "properties": {
        "status": {"type": "integer"},
        "code": {"type": "string", "examples": sorted(STATUSES)},
        "title": _TEXT,
        "detail": _TEXT,
        "retryable": {"type": "boolean"},
    },
    "additionalProperties": True,
}


def _operation(row: Row) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT}
        for name in _PART.findall(row.path)
    ]
    parameters += [
        {"name": name, "in": "query", "schema": schema, "description": text}
        for name, schema, text in QUERIES.get(row.path, ())
    ]
    parameters += [
        {"name": name, "in": "header", "schema": _TEXT, "description": text}
        for name, text in _HEADERS.get((row.method, row.path), ())
    ]
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation: dict[str, Any] = {
        "operationId": row.handler.__module__.rpartition(".")[2] + "_" + row.handler.__name__,
        "summary": row.help,
        "parameters": parameters,
        "responses": {
            **{str(status): _success(row, status) for status in row.answers},
            "default": {"description": "A problem.", "content": problem},
        },
    }
    if row.body:
        content = _JSON if row.body == "json" else {row.body: {"schema": {}}}
        operation["requestBody"] = {"content": content}
    return operation


def _success(row: Row, status: int) -> dict[str, Any]:
    told: dict[str, Any] = {"description": row.help}
    if row.path == "/v1/queues/{queue}/receive" and status != HTTPStatus.NO_CONTENT:
        told["headers"] = {"Location": _header("The lease."), **_received()}
    elif row.path == "/v1/leases/{lease}" and row.method == "GET":
        told["headers"], told["content"] = _received(), _BYTES
    elif status in (200, 201) and not row.path.startswith("/v1/uploads"):
        told["content"] = _JSON
    return told


def _received() -> dict[str, Any]:
    shown: Iterable[Property] = (*SENT, *RECEIVED)
    of_message = {each.header: _header(each.help) for each in shown}
    of_answer = {
        name: _header(text) for name, _, text in DIRECTIONS if "in an answer" in text.lower()
    }
    return of_message | of_answer


def _header(text: str) -> dict[str, Any]:
    return {"description": text, "schema": _TEXT}
