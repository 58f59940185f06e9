"""The steps of a large message's client after which it may be killed, by name.

The crash matrix in docs/explanation/large-messages.md lists them; `watch` is how its tests get
there.
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

watch: Callable[[str], object] | None = None


def reached(step: str) -> None:
    """A step has just been done."""
    if watch is not None:
        watch(step)
