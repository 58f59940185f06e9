"""Numbers, sizes and times in words."""

from __future__ import annotations

import datetime as dt
import re

from dray.model.sizes import human_size

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def counted(count: int, noun: str = "message") -> str:
    """A number of things: 1 entry, 2 entries, 1,000 days."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {re.sub('(?<![aeiou])y$', 'ie', noun)}s"


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
