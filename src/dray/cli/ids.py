"""Ids of messages and transactions as people give them on a command line.

An id has a backslash, which a shell takes away unless it is quoted; "-" and "/" are taken for it.
"""

from __future__ import annotations

import re

import click

_ID = re.compile(r"([0-9a-f]{32})[\\/-]?([0-9]{1,19})\Z")


class MessageIdText(click.ParamType[str]):
    """The id of a message or of a large message."""

    name = "id"
    of = "message"

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
                f"{value!r} is no id of a {self.of}: 32 hexadecimal digits, '\\' and a number; copy"
                f" it from the output that named the {self.of}",
                param,
                ctx,
            )
        return f"{found[1]}\\{found[2]}"


class TransactionIdText(MessageIdText):
    """The id of a transaction, which may be that of a send."""

    of = "transaction"
