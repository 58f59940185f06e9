"""A directory of this process for Spark's files; a session first removes those of dead processes.

dray-spark.XXXXXXXX     in the temporary directory, locked (flock) while its process lives
    home                a SPARK_HOME of links (`spark_home.py`)
    java                temporary files of Java
    session-XXXXXXXX    files of one session, which go with it
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_PREFIX = "dray-spark."


@contextmanager
def session_directory() -> Iterator[Path]:
    """A directory for the files of one session; leftovers of dead processes go first."""
    _remove_leftovers()
    directory = Path(tempfile.mkdtemp(prefix="session-", dir=own_directory()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def own_directory() -> Path:
    """The directory of this process. It stays until the process ends, as the Java does."""
    return _made_by(os.getpid()).path


class _Locked(NamedTuple):
    """The descriptor stays open, since the lock goes with it."""

    path: Path
    descriptor: int


@functools.cache
def _made_by(process: int) -> _Locked:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another session may come before the lock, and take it for a leftover.
        with suppress(FileNotFoundError):
            descriptor = _opened(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                break
            os.close(descriptor)
    (path / "java").mkdir()
    atexit.register(_remove, path, process)
    return _Locked(path, descriptor)


def _remove_leftovers() -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # It is in use, or it belongs to another user, or somebody else removes it.
        with suppress(OSError):
            descriptor = _opened(directory)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(descriptor)


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(directory: Path, owner: int) -> None:
    """At the end of the process; a child that it forked leaves the directory alone."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
