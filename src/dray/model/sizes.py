"""Sizes as people write them: 8589934592, "8GiB", "500 MB", None for no limit."""

from __future__ import annotations

import re

from dray.errors import InvalidConfiguration
from dray.model.arguments import shown
from dray.model.limits import SIZE_BYTES_MAX

_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_FORM = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([A-Za-z]*)\s*\Z", re.ASCII)


def size_in_bytes(value: object) -> int:
    """Read a size; raises `InvalidConfiguration` for anything that is none."""
    if isinstance(value, int):
        if value < 0 or isinstance(value, bool):
            raise InvalidConfiguration(
                f"{shown(value)} is not a size: it must be zero or more bytes"
            )
        return _bounded(value)
    form = _FORM.match(value) if isinstance(value, str) else None
    unit = _UNITS.get(form[2].lower()) if form else None
    if form is None or unit is None:
        raise InvalidConfiguration(
            f"{shown(value)} is not a size: write bytes or a text such as '8GiB'"
        )
    return _bounded(int(float(form[1]) * unit) if "." in form[1] else int(form[1]) * unit)


def _bounded(size: int) -> int:
    if size > SIZE_BYTES_MAX:
        raise InvalidConfiguration(f"{shown(size)} bytes are more than any disk has")
    return size


def optional_size(value: int | str | None) -> int | None:
    """Like `size_in_bytes`; None means no limit and stays None."""
    return None if value is None else size_in_bytes(value)


def human_size(count: float) -> str:
    """Write a size for people, in binary units with three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - the step between binary units
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
