"""Ids of messages as people give them on a command line.

An id has a backslash, which a shell takes away unless it is quoted; "-" and "/" are taken for it.
"""

from __future__ import annotations

import re

import click

_ID = re.compile(r"([0-9a-f]{32})[\\/-]?([0-9]{1,19})\Z")


class MessageIdText(click.ParamType[str]):
    """The id of a message or of a large message."""

    name = "id"

    def __init__(self, *, or_position: bool = False) -> None:
        """Take a position, too, if `or_position` says so."""
        self._or_position = or_position

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Give the id as the queue manager writes it."""
        if self._or_position and str(value).isdecimal():
            return str(value)
        found = _ID.match(str(value))
        if found is None:
            self.fail(
                f"{value!r} is no id of a message: 32 hexadecimal digits, '\\' and a number",
                param,
                ctx,
            )
        return f"{found[1]}\\{found[2]}"
