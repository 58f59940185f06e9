"""The steps of a transfer after which a program may be killed, by name.

The crash matrix in docs/explanation/transfer.md lists them; `watch` is how its tests get there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OFFERING: Final = (
    "offer-scanned",
    "offer-kept",
    "offer-sent",
    "joined-kept",
    "joined-told",
    "piece-sent",
    "done-kept",
    "farewell-told",
)
ACCEPTING: Final = (
    "accept-kept",
    "accept-received",
    "target-kept",
    "handshake-told",
    "piece-stored",
    "acked",
    "synced-kept",
    "checked",
    "renamed",
    "verified-kept",
    "verified-told",
)

watch: Callable[[str], object] | None = None


def reached(step: str) -> None:
    """A step has just been done."""
    if watch is not None:
        watch(step)
