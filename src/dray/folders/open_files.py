"""Tells whether a program still has a file open for writing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dray.model.platforms import is_linux


def is_open_for_writing(file: Path | str, folder: int | None = None) -> bool:
    """Whether somebody has it open for writing; False if nobody can tell.

    Linux gives a read lease on a file only while nobody has it open for writing. It gives one to
    the owner of the file and to root, and not on every file system. A relative path begins at the
    descriptor `folder`.
    """
    if not is_linux():
        return False
    import fcntl  # noqa: PLC0415 - other systems do not have all of it

    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    try:
        # Sent if somebody opens the file just now; every program ignores it by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
