"""Reports of backups that were made or restored."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Told = Callable[[int, int], object]
"""Hears how many bytes are done, of how many."""


def unheard(_done: int, _total: int) -> None:
    """Nobody wants to know."""


class BackupReport(msgspec.Struct, kw_only=True, frozen=True):
    """One archive: its queue manager, its time (seconds since the epoch) and its sizes in bytes."""

    manager_id: str
    name: str
    taken: float
    messages: int
    record_bytes: int
    archive_bytes: int
    sha256: str
    """Digest of all bytes of the archive before its last piece, which contains it."""
