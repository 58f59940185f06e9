"""What is told of a backup that was made or restored."""

from __future__ import annotations

import msgspec


class BackupReport(msgspec.Struct, kw_only=True, frozen=True):
    """One archive: whose, of when (seconds since the epoch), and how large. Sizes in bytes."""

    manager_id: str
    name: str
    taken: float
    messages: int
    record_bytes: int
    archive_bytes: int
    sha256: str
    """Of all bytes of the archive but its last piece, which holds it too."""
