"""Seconds as options of commands."""

from __future__ import annotations

import math

import click


class Seconds(click.FloatRange):
    """A number of seconds in a range; "nan" is none."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number; raises `click.BadParameter`."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds
