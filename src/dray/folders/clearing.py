"""Removes a file from its folder once it was sent: deletes it or moves it to another folder.

A writer may put a new version in the place of the file at any moment, and that one must stay. So
the name is first changed to a hidden one, which takes whatever stands there now; only then is the
file looked at. A new version gets its name back, and so does a file that cannot be removed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from pathlib import Path

from dray.errors import InvalidConfiguration
from dray.folders.labels import short_numbered
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

    def clear(self, file: FoundFile) -> bool:
        """Remove a version of a file; False if another version stands there now and stays.

        Raises OSError if it cannot be removed; then it has its name.
        """
        full = self._root / file.path
        hidden = full.with_name(
            f"{OWN_PREFIX}{hashlib.sha256(os.fsencode(file.path)).hexdigest()[:24]}"
        )
        if not os.path.lexists(hidden):
            try:
                full.rename(hidden)
            except (FileNotFoundError, NotADirectoryError):
                self._clear_mark(full)
                return True
        found = hidden.lstat()
        if stat.S_ISDIR(found.st_mode):
            # A folder has taken the place of the file.
            hidden.rename(full)
            return False
        if (found.st_size, found.st_mtime_ns, found.st_ino) != file.version:
            _give_back(hidden, full)
            return False
        try:
            if self._into is None:
                hidden.unlink()
            else:
                _move(hidden, self._into / file.path)
        except OSError:
            _give_back(hidden, full)
            raise
        self._clear_mark(full)
        return True

    def _clear_mark(self, full: Path) -> None:
        """Remove the mark of a file that is gone; if a newer version is there, it is that one's."""
        if self._suffix and not os.path.lexists(full):
            full.with_name(full.name + self._suffix).unlink(missing_ok=True)


def _give_back(hidden: Path, full: Path) -> None:
    """Give a file its name back, unless a version that is newer still has it."""
    # A link never takes the place of another file.
    try:
        os.link(hidden, full, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError:
        # The file system has no links.
        if not os.path.lexists(full):
            hidden.rename(full)
            return
    hidden.unlink()


def _move(hidden: Path, target: Path) -> None:
    """Give a file the name `target`, numbered if there is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for count in itertools.count(1):
        name = target.with_name(short_numbered(target.name, count))
        try:
            os.link(hidden, name, follow_symlinks=False)
        except FileExistsError:
            if name.lstat().st_ino == hidden.lstat().st_ino:
                # A run that was killed here had linked it.
                break
            continue
        break
    hidden.unlink()
