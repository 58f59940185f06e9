"""The header `Range` of a request (RFC 9110): one range of bytes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dray.console.http.refusal import HttpRefusal

_ONE: Final = re.compile(r"bytes=\s*([0-9]{0,19})-([0-9]{0,19})\s*\Z", re.ASCII)


class ByteRange(NamedTuple):
    """Bytes of a body, from `start` up to and without `end`."""

    start: int
    end: int


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """The range that is asked for, cut to the size; None for the whole body.

    Several ranges, other units and what cannot be read are ignored, as the standard has it. Raises
    `HttpRefusal`, 416, for a range that begins behind the end.
    """
    found = _ONE.match(header or "")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size or start >= end:
        raise HttpRefusal(
            416, "range-not-there", f"the body has {size} bytes, and the range begins behind them;"
            " ask for another",
            {"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return ByteRange(start, end)
