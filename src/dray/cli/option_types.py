"""Types of options and arguments: a size (8GiB), a number of seconds (5min), an id of a message.

An id has a backslash, which a shell takes away unless it is quoted; "-" and "/" are taken for it.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from types import EllipsisType
from typing import Final

import click

from dray.errors import InvalidConfiguration
from dray.model.words import size_in_bytes

_ID = re.compile(r"([0-9a-f]{32})[\\/-]?([0-9]{1,19})\Z")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0}
_WITH_UNIT: Final = re.compile(r"([0-9.]+) *(ms|s|min|h)\Z")


class Size(click.ParamType[int]):
    """Bytes, with or without a unit. A malformed size is a usage error, like a malformed number."""

    name = "SIZE"

    def __init__(self, most: int | None = None, *, least: int = 0) -> None:
        """Accept from `least` to `most` bytes; None sets no limit."""
        self._least = least
        self._most = most

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read a size; raises `click.BadParameter`."""
        try:
            size = size_in_bytes(value)
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)
        if size < self._least:
            self.fail(f"{value} is less than {self._least} byte", param, ctx)
        if self._most is not None and size > self._most:
            self.fail(f"{value} is more than {self._most} bytes", param, ctx)
        return size


class Limit(click.ParamType["int | EllipsisType"]):
    """A size, or "none" for no limit."""

    name = "SIZE|none"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | EllipsisType:
        """Read a size; `...` stands for no limit, since None is an option that was not given."""
        return ... if value == "none" else Size().convert(value, param, ctx)


def given(limit: int | EllipsisType | None) -> int | EllipsisType | None:
    """The value for `Manager.set_quota`, which leaves a quota alone for `...`."""
    if limit is None:
        return ...
    return None if isinstance(limit, EllipsisType) else limit


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


def in_seconds(text: str) -> float:
    """Read a number with or without a unit; raises ValueError."""
    found = _WITH_UNIT.match(text.strip())
    return float(text) if found is None else float(found[1]) * _UNITS[found[2]]


class Seconds(click.FloatRange):
    """A number of seconds in a range; "nan" is none."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number, with or without a unit; raises `click.BadParameter`."""
        # Malformed text gets the sentence that click has for it.
        with suppress(ValueError):
            value = in_seconds(str(value))
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds
