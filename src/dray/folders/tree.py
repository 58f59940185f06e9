"""Finds the files of a folder, each with the marks that tell one version from another."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from dray.client.files.file_identity import FileIdentity
from dray.client.files.sources import FileSource
from dray.errors import DrayError, InvalidConfiguration, SourceUnreadable
from dray.folders.patterns import Patterns
from dray.model.files import FileProperties, is_plain_path

OWN_PREFIX: Final = ".dray-"
"""Dray's own files in a folder begin so; nobody sends them."""
_TICK_NS: Final = 20_000_000
"""Two changes of a file within a tick of the kernel, at most 10 ms, may have the same time."""


class FoundFile(NamedTuple):
    """One version of a file: another size, time or inode is another version."""

    path: str
    """Relative to the folder, with "/" between names."""
    size: int
    mtime_ns: int
    inode: int
    mode: int = 0o644

    @property
    def version(self) -> FileIdentity:
        """Equal for two looks at a file that did not change between them."""
        return FileIdentity(self.size, self.mtime_ns, self.inode)

    @property
    def properties(self) -> FileProperties:
        """The properties that travel with the message."""
        return FileProperties(self.path, self.size, self.mtime_ns, stat.S_IMODE(self.mode))


class LeftOut(NamedTuple):
    """A name in the folder that is not sent, and why."""

    path: str
    reason: str
    error: DrayError | None = None
    """Set if it was to be sent or removed, and could not be."""


@dataclass(frozen=True)
class Selection:
    """The files of a folder that are sent."""

    patterns: Patterns = field(default_factory=Patterns)
    hidden: bool = False
    """Whether names that begin with a dot are taken."""
    follow_links: bool = False
    ready_suffix: str = ""
    """A file is taken once its name with this suffix exists, too; "" for no such rule."""
    not_below: tuple[Path, ...] = ()
    """Folders of Dray's own that may lie in the folder, resolved."""

    def takes(self, path: str) -> bool:
        """Whether a path may be sent, before anybody looks at the file itself."""
        names = path.split("/")
        if any(each.startswith(OWN_PREFIX) for each in names):
            return False
        if not self.hidden and any(each.startswith(".") for each in names):
            return False
        if self.ready_suffix and path.endswith(self.ready_suffix):
            return False
        return self.patterns.take(path)


class SourceTree(Protocol):
    """Files to send: of a folder, or of a store."""

    selection: Selection

    def walk(self, below: str = "") -> Iterator[FoundFile | LeftOut]:
        """Find the files, each once; begin at the folder `below`."""
        ...

    def look_at(self, path: str) -> FoundFile | LeftOut | None:
        """Look at one path; None if no file of that name is to be sent now."""
        ...

    def body_of(self, file: FoundFile) -> AbstractContextManager[object]:
        """Open a file to send it; raises `SourceChanged` if it is another version by now."""
        ...


class Tree:
    """A folder to send from."""

    def __init__(self, root: Path, selection: Selection) -> None:
        """Take the folder; it is read when it is walked.

        Raises `InvalidConfiguration` if Dray was told to keep files of its own right in it.
        """
        self.root = root
        self.selection = selection
        self._resolved = root.resolve()
        if self._resolved in selection.not_below:
            raise InvalidConfiguration(
                f"files of {root} are sent, so neither the ledger nor sent files can stand in it;"
                " give another directory, which may be one below it"
            )
        self._own = tuple(
            each.relative_to(self._resolved).as_posix()
            for each in selection.not_below
            if each.is_relative_to(self._resolved)
        )
        """Folders of Dray's own, relative to the folder."""

    def identity(self) -> tuple[int, int] | None:
        """The folder that stands there now; None if there is none."""
        try:
            found = self.root.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def walk(self, below: str = "") -> Iterator[FoundFile | LeftOut]:
        """Find the files, folder by folder in the order of names; each is looked at once.

        Begins at the folder `below`. A name that cannot be sent is given as `LeftOut`. A folder
        that vanishes meanwhile has no files.
        """
        # Folders may be deeper than calls can be.
        walks: list[Iterator[object]] = [self._walk(below, ())]
        while walks:
            each = next(walks[-1], None)
            if isinstance(each, (FoundFile, LeftOut)):
                yield each
            elif isinstance(each, Iterator):
                walks.append(each)
            else:
                walks.pop()

    def look_at(self, path: str) -> FoundFile | LeftOut | None:
        """Look at one path; None if no file of that name is to be sent now."""
        if not self.selection.takes(path) or self._is_own(path):
            return None
        if not is_plain_path(path):
            return LeftOut(path, "its path is longer than a file's may be")
        full = self.root / path
        try:
            found = full.lstat()
            if stat.S_ISLNK(found.st_mode):
                why = self._why_not_followed(full)
                if why:
                    return LeftOut(path, why)
                found = full.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return _unreadable(path, f"it cannot be looked at: {error.strerror or error}")
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode):
            return LeftOut(path, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}")
        suffix = self.selection.ready_suffix
        if suffix and not os.path.lexists(f"{full}{suffix}"):
            return None
        return FoundFile(path, *FileIdentity.of(found), found.st_mode)

    @contextmanager
    def body_of(self, file: FoundFile) -> Iterator[object]:
        """Open a file to send it; raises `SourceChanged` if it is another version by now."""
        age_ns = time.time_ns() - file.mtime_ns
        if 0 <= age_ns < _TICK_NS:
            # Read in the same tick, a later change could have the time of this version.
            time.sleep((_TICK_NS - age_ns) / 1e9)
        source = FileSource(self.root / file.path, follow_links=self.selection.follow_links)
        before = source.before
        try:
            if FileIdentity.of(before) != file.version:
                raise source.changed()
            yield source
        finally:
            source.close()

    def _walk(
        self, folder: str, above: tuple[tuple[int, int], ...]
    ) -> Iterator[FoundFile | LeftOut | Iterator[object]]:
        """Give what is in a folder, and the walks of the folders in it."""
        full = self.root / folder
        if self._is_own(folder):
            return
        try:
            here = full.stat()
            if (here.st_dev, here.st_ino) in above or full.resolve() in self.selection.not_below:
                return
            with os.scandir(full) as entries:
                names = sorted((each.name, _is_folder(each)) for each in entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield _unreadable(
                folder or str(self.root), f"it cannot be read: {error.strerror or error}"
            )
            return
        within = (*above, (here.st_dev, here.st_ino))
        for name, is_folder in names:
            path = f"{folder}/{name}" if folder else name
            if not is_folder:
                found = self.look_at(path)
                if found is not None:
                    yield found
            elif self._enters(path):
                why = self._why_not_followed(full / name) if (full / name).is_symlink() else ""
                yield LeftOut(path, why) if why else self._walk(path, within)

    def _is_own(self, path: str) -> bool:
        return any(path == each or path.startswith(f"{each}/") for each in self._own)

    def _enters(self, path: str) -> bool:
        """Whether a folder, or a link to one, may have files to send."""
        name = path.rpartition("/")[2]
        if name.startswith(OWN_PREFIX) or (name.startswith(".") and not self.selection.hidden):
            return False
        return not self.selection.patterns.leave_out_folder(path)

    def _why_not_followed(self, link: Path) -> str:
        """Why a symbolic link is left out; "" if it is followed."""
        if not self.selection.follow_links:
            return "it is a symbolic link, and links are not followed"
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError):
            return "it is a symbolic link to a file that does not exist"
        if not target.is_relative_to(self._resolved):
            return "it is a symbolic link that leads out of the folder"
        return ""


def _unreadable(path: str, reason: str) -> LeftOut:
    error = SourceUnreadable(f"{path} is left out: {reason}; mend that, then send again", path=path)
    return LeftOut(path, reason, error)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
