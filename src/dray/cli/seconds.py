"""Seconds as options of commands: a number, which may have a unit, such as `2s` or `5min`."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Final

import click

_UNITS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0}
_WITH_UNIT: Final = re.compile(r"([0-9.]+) *(ms|s|min|h)\Z")


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
