"""The steps of a program after which it may be killed, by name; `watch` is how tests get there.

Those of large messages are listed by the crash matrix in docs/explanation/large-messages.md, those
of file transfers by the one in docs/explanation/transfer.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SENDING: Final = (
    "header-sent",
    "fragment-sent",
    "trailer-sent",
    "send-committed",
)
UPLOADING: Final = (
    "state-written",
    "state-named",
    "upload-begun",
    "header-sent",
    "fragment-sent",
    "marked",
    "trailer-sent",
    "upload-committed",
    "state-removed",
)
RECEIVING: Final = (
    "message-found",
    "file-opened",
    "fragment-saved",
    "file-synced",
    "file-named",
    "directory-synced",
    "receive-committed",
)
TOLD_OF_A_HOLE: Final = (
    "hole-told",
    "hole-rejected",
)
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
