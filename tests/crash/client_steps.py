"""The steps of a program after which a crash matrix kills it, by name and in their order.

The matrix of large messages is in `docs/explanation/large-messages.md`, that of file transfers in
`docs/explanation/transfer.md`. A program tells each step by `dray.client.files.steps.reached`.
"""

from __future__ import annotations

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
