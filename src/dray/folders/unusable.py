"""The error for a file or a directory that Dray is told to write to and cannot open or make."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from dray.errors import InvalidConfiguration, TargetUnwritable


def unusable(
    path: Path, said: str, error: Exception, remedy: str
) -> InvalidConfiguration | TargetUnwritable:
    """Give the error that says so, with a remedy; it is retryable while the disk is full."""
    said = f"{said}: {(isinstance(error, OSError) and error.strerror) or error}"
    if _is_full(error):
        return TargetUnwritable(
            f"{said}; free room on its disk, or {remedy}", path=str(path), retryable=True
        )
    return InvalidConfiguration(f"{said}; {remedy}")


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
