"""Files that only their owner can open, and that nobody else has planted.

In a folder where others may write, they can plant a symbolic link, a second name of one of our
files, or a file of their own under a name that we are going to use. Such a file is never opened.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dray.fsync import sync_folder

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW
_PROBE = f"{0:032x}-0.at."
"""A receiver removes files of this name from its hidden folder, if a probe was killed there."""
_PLANTED = {
    errno.ELOOP: "{name} is a symbolic link, remove it",
    errno.EINVAL: "{name} is no regular file, remove it",
    errno.EMLINK: "{name} is a second name of another file, remove it",
    errno.EPERM: "{name} is a file of another user, remove it",
}
"""Sentences about a name that we were going to use."""
_KEPT = {
    errno.ELOOP: "{name} is a symbolic link; put the file that it leads to in its place",
    errno.EINVAL: "{name} is no regular file; bring back the one that was there",
    errno.EMLINK: "{name} has a second name (a hard link), by which others could change it; remove"
    " that other name, or copy the directory to a place of its own",
    errno.EPERM: "{name} belongs to another user; give it to the user that runs this program",
}
"""Sentences about a file that holds something."""


class NotKeptError(OSError):
    """A file that is not opened because of its kind, its names or its owner."""


def make_own_folder(folder: Path) -> None:
    """Make a folder, if it is not there, that only its owner can enter; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)


def create_own(path: Path) -> int:
    """Open a fresh file for writing, in place of any file of that name; raises OSError.

    Only its owner can read it. A symbolic link of that name is removed, not followed.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, FILE_MODE)


@contextmanager
def replacing(
    path: Path, fresh: Path | None = None, *, synced: Callable[[], object] | None = None
) -> Iterator[BinaryIO]:
    """Give a file that stands at `path`, whole and durable, once the block has ended.

    Until then, and if the block fails, an older file of that name is there as it was. It grows as
    `fresh`, by default `<path>.new`; `synced` is called when that one is durable. Only its owner
    can read it. Raises OSError.
    """
    fresh = fresh or path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(create_own(fresh), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if synced is not None:
            synced()
        fresh.replace(path)
        sync_folder(path.parent)
    except BaseException:
        # A disk that cannot remove it either does not hide what happened first.
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def open_own(path: Path, mode: int = FILE_MODE) -> int:
    """Open a file for reading and writing, made with `mode` if it is not there.

    Raises OSError unless it is a regular file of this user with one name only.
    """
    return _opened(path, os.O_CREAT, mode, _PLANTED)


def open_own_existing(path: Path) -> int:
    """Open a file that is there for reading and writing; raises OSError as `open_own` does."""
    return _opened(path, 0, FILE_MODE, _KEPT)


def hindrance(path: Path) -> str:
    """Why `open_own_existing` would refuse a file for its kind or its names; empty if it would not.

    It opens nothing, and says nothing of the owner, because another user may ask. Raises OSError.
    """
    number = _wrong_kind(path.lstat())
    return _KEPT[number].format(name=path.name) if number else ""


def is_of_this_user(path: Path, status: os.stat_result) -> bool:
    """Whether this user owns a file or folder, or makes files with the same owner beside it.

    A file server may give other owners to all files that this user makes. Raises OSError.
    """
    if status.st_uid == os.geteuid():
        return True
    folder = path if stat.S_ISDIR(status.st_mode) else path.parent
    descriptor, probe = tempfile.mkstemp(prefix=_PROBE, dir=folder)
    try:
        return os.fstat(descriptor).st_uid == status.st_uid
    finally:
        os.close(descriptor)
        Path(probe).unlink()


def is_probe(name: str) -> bool:
    """Whether `is_of_this_user` gives such a name to the file that it makes and removes."""
    return name.startswith(_PROBE)


def _opened(path: Path, flags: int, mode: int, refusals: dict[int, str]) -> int:
    def refused(number: int) -> OSError:
        return NotKeptError(number, refusals[number].format(name=path.name))

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | _SAFELY | flags, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise refused(errno.ELOOP) from error
    try:
        status = os.fstat(descriptor)
        wrong = _wrong_kind(status)
        if wrong:
            raise refused(wrong)
        if not is_of_this_user(path, status):
            raise refused(errno.EPERM)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _wrong_kind(status: os.stat_result) -> int:
    """The number of the sentence about what is no regular file with one name; 0 for others."""
    if stat.S_ISLNK(status.st_mode):
        return errno.ELOOP
    if not stat.S_ISREG(status.st_mode):
        return errno.EINVAL
    return errno.EMLINK if status.st_nlink > 1 else 0
