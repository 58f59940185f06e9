"""Removes a file from its folder once it was sent: deletes it or moves it to another folder.

A writer may put a new version in the place of the file at any moment, and that one must stay. So
the name is first changed to a hidden one, which takes whatever stands there now; only then is the
file looked at. A new version gets its name back, and so does a file that cannot be removed.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dray.client.files.file_identity import FileIdentity
from dray.errors import InvalidConfiguration
from dray.folders.labels import short_numbered
from dray.folders.open_files import is_open_for_writing
from dray.folders.tree import OWN_PREFIX, FoundFile


class Clearing:
    """Deletes the files of one folder, or moves them into another one on the same file system."""

    def __init__(self, root: Path, into: Path | None = None, *, ready_suffix: str = "") -> None:
        """Take the folder; without `into` files are deleted.

        Raises `InvalidConfiguration` if they cannot be moved.
        """
        self._root = root
        self._into = into
        self._suffix = ready_suffix
        if into is not None:
            try:
                into.mkdir(parents=True, exist_ok=True)
                same = into.stat().st_dev == root.stat().st_dev
            except OSError as error:
                raise InvalidConfiguration(
                    f"files cannot be moved to {into}: {error.strerror or error}; name another"
                    " directory"
                ) from error
            if not same:
                raise InvalidConfiguration(
                    f"files cannot be moved from {root} to {into}, which is on another file system;"
                    " name a directory on the same one"
                )

    def folders_of_hidden(self, files: Iterable[FoundFile]) -> dict[str, Path]:
        """The folders of the files that a killed run has hidden, by their paths.

        A folder above may have another name by now.
        """
        paths = {_hidden_name(each.path): each.path for each in files}
        walk = os.walk(self._root) if paths else ()
        return {
            paths[name]: Path(above)
            for above, _, names in walk
            for name in paths.keys() & set(names)
        }

    def clear(self, file: FoundFile, folder_now: Path | None = None) -> bool:
        """Remove a version of a file; False if another version stands there now and stays.

        `folder_now` is its folder, if that may have another name than in the path of the file.
        Raises OSError if it cannot be removed; then it has its name.
        """
        full = self._root / file.path
        try:
            folder = os.open(folder_now or full.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return True
        try:
            # The file is still in this folder if a folder above gets another name meanwhile.
            return self._clear_in(folder, full.name, file)
        finally:
            os.close(folder)

    def _clear_in(self, folder: int, name: str, file: FoundFile) -> bool:
        hidden = _hidden_name(file.path)
        if _are_one(hidden, name, folder):
            # A killed run was about to give it its name back.
            os.unlink(hidden, dir_fd=folder)
        if not _is_there(hidden, folder):
            try:
                _rename(name, hidden, folder)
            except FileNotFoundError:
                self._clear_mark(folder, name)
                return True
        found = os.lstat(hidden, dir_fd=folder)
        if stat.S_ISDIR(found.st_mode):
            # A folder has taken the place of the file.
            _rename(hidden, name, folder)
            return False
        if FileIdentity.of(found) != file.version:
            _give_back(hidden, name, folder)
            return False
        try:
            if is_open_for_writing(hidden, folder):
                # Anything that the program writes after this would be lost.
                raise OSError(errno.ETXTBSY, "a program has it open for writing")
            if self._into is None:
                os.unlink(hidden, dir_fd=folder)
            else:
                _move(hidden, folder, self._into / file.path)
        except OSError:
            _give_back(hidden, name, folder)
            raise
        self._clear_mark(folder, name)
        return True

    def _clear_mark(self, folder: int, name: str) -> None:
        """Remove the mark of a file that is gone; if a newer version is there, it is that one's."""
        if self._suffix and not _is_there(name, folder):
            with suppress(FileNotFoundError):
                os.unlink(name + self._suffix, dir_fd=folder)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _are_one(one: str, other: str, folder: int) -> bool:
    """Whether two names are names of one file."""
    try:
        return os.path.samestat(os.lstat(one, dir_fd=folder), os.lstat(other, dir_fd=folder))
    except FileNotFoundError:
        return False


def _hidden_name(path: str) -> str:
    return f"{OWN_PREFIX}{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}"


def _rename(old: str, new: str, folder: int) -> None:
    os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def _give_back(hidden: str, name: str, folder: int) -> None:
    """Give a file its name back, unless a version that is newer still has it."""
    # A link never takes the place of another file.
    try:
        os.link(hidden, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError:
        # The file system has no links.
        if not _is_there(name, folder):
            _rename(hidden, name, folder)
            return
    os.unlink(hidden, dir_fd=folder)


def _move(hidden: str, folder: int, target: Path) -> None:
    """Give a file the name `target`, numbered if there is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for count in itertools.count(1):
        name = target.with_name(short_numbered(target.name, count))
        try:
            os.link(hidden, name, src_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            if name.lstat().st_ino == os.lstat(hidden, dir_fd=folder).st_ino:
                # A run that was killed here had linked it.
                break
            continue
        break
    os.unlink(hidden, dir_fd=folder)
