"""Sizes as options of commands: 8589934592, 8GiB, 500MB."""

from __future__ import annotations

import click

from dray.errors import InvalidConfiguration
from dray.model.sizes import size_in_bytes


class Size(click.ParamType[int]):
    """Bytes, in a unit or without; what is none is wrong usage, as a bad number is."""

    name = "SIZE"

    def __init__(self, most: int | None = None) -> None:
        """Take `most` bytes at the most; None means any number."""
        self._most = most

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read what was given. Raises `click.BadParameter`."""
        try:
            size = size_in_bytes(value)
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)
        if self._most is not None and size > self._most:
            self.fail(f"{value} is more than {self._most} bytes", param, ctx)
        return size
