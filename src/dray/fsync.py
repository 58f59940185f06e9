"""Bytes of a file and names in a folder, made durable on any system."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Return once the names in it are on disk; raises OSError.

    A file that was synced may be gone while its name was not.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Return once the bytes of a file are on disk; raises OSError."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)
