"""Numbers, sizes and times in words, and sizes as people write them, such as "8GiB"."""

from __future__ import annotations

import datetime as dt
import re

from dray.errors import InvalidConfiguration
from dray.model.arguments import shown
from dray.model.limits import SIZE_BYTES_MAX

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SIZES = {
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
_DIGITS_MAX = 18
"""Digits of a number that fits 64 bits, whatever they are."""
_FORM = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([A-Za-z]*)\s*\Z", re.ASCII)


def counted(count: int, noun: str = "message") -> str:
    """A number of things: 1 entry, 2 entries, 1,000 days."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {re.sub('(?<![aeiou])y$', 'ie', noun)}s"


def whole_number(text: str) -> int | None:
    """Read a number in decimal digits, at most 18 of them; None for any other text."""
    is_one = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_one else None


def duration(seconds: float) -> str:
    """A time span, to two units."""
    rest = max(0.0, seconds)
    told = []
    for size, unit in _UNITS:
        if rest >= size:
            told.append(f"{int(rest // size)} {unit}")
            rest %= size
    if not told or (len(told) == 1 and rest >= 1):
        told.append(f"{rest:.0f} s")
    return " ".join(told[:2])


def hex_line(offset: int, data: bytes) -> str:
    """Sixteen bytes at most: their offset, themselves in hexadecimal, and as text."""
    text = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in data)  # noqa: PLR2004
    return f"{offset:08x}  {data.hex(' '):<47}  {text}"


def size_text(count: int | None) -> str:
    """A size, or what stands for no limit."""
    return "no limit" if count is None else human_size(count)


def time_text(seconds: float | None) -> str:
    """A moment in this machine's own time zone, to the second."""
    if seconds is None:
        return ""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC).astimezone()
    return moment.isoformat(" ", timespec="seconds")


def size_in_bytes(value: object) -> int:
    """Read a size; raises `InvalidConfiguration` for anything that is none."""
    if isinstance(value, int):
        if value < 0 or isinstance(value, bool):
            raise InvalidConfiguration(
                f"{shown(value)} is not a size: it must be zero or more bytes"
            )
        return _bounded(value)
    form = _FORM.match(value) if isinstance(value, str) else None
    unit = _SIZES.get(form[2].lower()) if form else None
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
