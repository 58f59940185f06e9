"""Arguments that may also be left out, as frames carry them."""

from __future__ import annotations

from types import EllipsisType

from dray.model.words import optional_size
from dray.wire.queue_frames import SetQuota


def quota_limit(quota: int | str | EllipsisType | None) -> int | None:
    """A quota in bytes, None for no limit; `...` leaves it as it is."""
    return SetQuota.KEPT if isinstance(quota, type(...)) else optional_size(quota)


def unheard(_done: int, _total: int) -> None:
    """Progress that nobody reads."""
