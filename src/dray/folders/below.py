"""Relative paths below a folder: which a sender may choose, and how they are opened.

The sender of a file chooses its path. Each folder on the way is opened from the one above it, and
no symbolic link is followed. So no path leads out of the folder, whatever others plant in it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dray.errors import FileRefused
from dray.folders.tree import OWN_PREFIX
from dray.model.files import is_plain_path

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINK_OR_FILE: Final = (errno.ELOOP, errno.ENOTDIR)


def check_path(path: str) -> None:
    """Raise `FileRefused` unless a path stays below the folder and each name can be a file's."""
    if not is_plain_path(path):
        raise _refused(path, "it is not a relative path of names with at most 255 bytes each")
    if any(name.startswith(OWN_PREFIX) for name in path.split("/")):
        raise _refused(path, f"names that begin with {OWN_PREFIX!r} are Dray's own")


@contextmanager
def folder_of(root: Path, path: str, *, make: bool, sync: bool = False) -> Iterator[int]:
    """Give a descriptor of the folder that holds the last name of `path`, below `root`.

    With `make` missing folders are made. Raises `FileRefused` if a symbolic link or a file stands
    in the way, and OSError.
    """
    descriptor = os.open(root, _OPEN_FOLDER)
    try:
        for name in path.split("/")[:-1]:
            below = _entered(descriptor, name, path, make=make, sync=sync)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def look_at(root: Path, path: str) -> os.stat_result | None:
    """Look at the name at a path, following no link; None if nothing is there."""
    try:
        with folder_of(root, path, make=False) as folder:
            return os.lstat(path.rpartition("/")[2], dir_fd=folder)
    except (FileNotFoundError, FileRefused):
        return None


def _entered(folder: int, name: str, path: str, *, make: bool, sync: bool) -> int:
    try:
        try:
            return os.open(name, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(name, dir_fd=folder)
            if sync:
                os.fsync(folder)
        except FileExistsError:
            # Somebody else has made it just now.
            pass
        return os.open(name, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno not in _LINK_OR_FILE:
            raise
        raise _refused(path, f"{name!r} on its way is no folder") from error


def _refused(path: str, why: str) -> FileRefused:
    return FileRefused(
        f"the file {path!r} cannot be restored here: {why}; receive it without its path, or have it"
        " sent under another one",
        path=path,
    )
