"""Fields of a form that a browser sends: small, and read whole."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from dray.console.http.bodies import RequestBody
from dray.console.http.limits import STALLED_S
from dray.console.http.refusal import HttpRefusal
from dray.errors import Misuse

_BYTES_MAX: Final = 1 << 20
"""Ids of 10,000 chosen messages fit."""
_DIGITS_MAX: Final = 18
"""Every such number fits in 64 bits; Python refuses to read one of some thousand digits."""
_FIELDS_MAX: Final = 20_000
"""The same choice, with a field for each id and a few besides."""


class Form:
    """The fields of a form."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        """Take the values of each field, in their order."""
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return self._fields.get(name, [default])[-1]

    def each(self, name: str) -> list[str]:
        """All values of a field."""
        return self._fields.get(name, [])


async def read_form(request: Request) -> Form:
    """Read a form; raises `Misuse` for one that is too long or no form.

    And `HttpRefusal` for a client that does not send all of it in time.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise Misuse("the request carries no form; use the page of the console")
    try:
        # Strangers send one, too, and could hold a connection with a byte now and then.
        async with asyncio.timeout(STALLED_S):
            body, is_whole = await RequestBody(request).beginning(_BYTES_MAX)
    except TimeoutError as error:
        raise HttpRefusal(
            408, "stalled", f"the form did not come whole within {STALLED_S:g} s; send it again",
            {"Connection": "close"},
        ) from error  # fmt: skip
    if not is_whole:
        raise Misuse("the form is too long; choose fewer messages at a time")
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict"
        )
    except ValueError as error:
        raise Misuse("the form cannot be read; use the page of the console") from error
    return Form(fields)


def whole_number(text: str) -> int | None:
    """A number from 0 on of at most 18 digits, as somebody writes it; None for anything else."""
    written = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if written else None
