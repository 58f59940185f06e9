"""Numbers and times in words."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def counted(count: int, noun: str = "message") -> str:
    """A number of things."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


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
