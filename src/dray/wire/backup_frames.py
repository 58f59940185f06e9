"""The frames of a backup: a moment is asked for, then read piece by piece (codes 23 to 26)."""

from __future__ import annotations

from dray.wire.head import Head


class Backup(Head, frozen=True):
    """Ask for everything as it stands between two turns. Answered by BackupBegun.

    Traffic goes on; what the backup holds keeps its place until it was read, or the asker is gone.
    """

    code = 23


class BackupBegun(Head, frozen=True):
    """The queue manager of the backup, its time (microseconds since the epoch), and its size."""

    code = 24
    manager_id: str
    name: str
    version: str
    taken_us: int
    messages: int
    record_bytes: int
    state_bytes: int
    heap_file_bytes: int


class BackupRead(Head, frozen=True):
    """Ask for the next piece of the backup. Answered by BackupPiece."""

    code = 25


class BackupPiece(Head, frozen=True):
    """In the body a part of the state, or records; the last piece is empty.

    For records, `runs` packs where their bytes lie (heap file, offset, length: 4 bytes each), and
    `checks` the length and CRC32C of each record (4 bytes each).
    """

    code = 26
    pages = True
    runs: bytes = b""
    checks: bytes = b""
