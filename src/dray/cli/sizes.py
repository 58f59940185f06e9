"""Sizes as options of commands: 8589934592, 8GiB, 500MB."""

from __future__ import annotations

from types import EllipsisType

import click

from dray.errors import InvalidConfiguration
from dray.model.sizes import size_in_bytes


class Size(click.ParamType[int]):
    """Bytes, with or without a unit. A malformed size is a usage error, like a malformed number."""

    name = "SIZE"

    def __init__(self, most: int | None = None) -> None:
        """Accept at most `most` bytes; None sets no limit."""
        self._most = most

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read a size; raises `click.BadParameter`."""
        try:
            size = size_in_bytes(value)
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)
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
