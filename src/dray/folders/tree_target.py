"""Received files below a folder, each under its own path: whole, once, and never outside of it.

A body grows in a hidden folder of the tree. The ledger there notes, durably, which file is going to
stand where, and only then the file gets its name. A message that comes again is known by the
ledger, and so is a newer version of a file from the same source, which takes the older one's place.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dray.errors import DrayError, FileRefused, InvalidConfiguration, TargetUnwritable
from dray.folders.below import check_path, folder_of, look_at
from dray.folders.file_receiver import finish_body, path_of
from dray.folders.labels import numbered
from dray.folders.received_ledger import ArrivedFile, PlacedVersion, ReceivedLedger
from dray.fsync import sync_folder
from dray.model.files import NAME_BYTES_MAX
from dray.model.ids import split_id
from dray.model.limits import MIB
from dray.own_files import is_of_this_user

if TYPE_CHECKING:
    from dray.client.blocking.large_message import LargeMessage
    from dray.client.files.progress import Progress

OnConflict = Literal["number", "replace", "skip", "fail"]
LEDGER: Final = "received.sqlite"
_SYNCED_BEHIND_BYTES: Final = 32 * MIB
"""A longer body is synced while it is written; a shorter one is synced once, at its end."""
_PART: Final = (".part", ".part.partial")


class RestoredFile(NamedTuple):
    """A file that stands at its place, or the reason why it was passed over."""

    path: Path
    skipped: str = ""


class TreeTarget:
    """A folder below which files are restored; its methods may be called from several threads."""

    def __init__(
        self,
        root: Path,
        *,
        preserve: bool = False,
        on_conflict: OnConflict = "number",
        sync: bool = True,
    ) -> None:
        """Open the folder, made if it is missing, for this process only.

        `preserve` keeps time and mode of the files. Raises `InvalidConfiguration`, and
        `StoreLocked` if another process receives into the folder.
        """
        self.root = root
        self._preserve = preserve
        self._on_conflict = on_conflict
        self._sync = sync
        self._lock = threading.Lock()
        self._hidden = root / f".dray-tree-{os.geteuid()}"
        try:
            root.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._hidden.mkdir(0o700)
            there = self._hidden.lstat()
            if not stat.S_ISDIR(there.st_mode) or not is_of_this_user(self._hidden, there):
                raise NotADirectoryError(f"{self._hidden} is no directory of this user, remove it")
            if sync:
                sync_folder(root)
        except OSError as error:
            raise InvalidConfiguration(
                f"{root} cannot be used as a directory: {error.strerror or error}; name another"
                " directory"
            ) from error
        self._ledger = ReceivedLedger(self._hidden / LEDGER, sync=sync)
        try:
            self._ledger.settle(self._stands)
            for each in self._hidden.iterdir():
                if each.name.endswith(_PART):
                    each.unlink()
        except BaseException:
            self._ledger.close()
            raise

    def close(self) -> None:
        """Let other processes receive into the folder."""
        self._ledger.close()

    def place(self, message: LargeMessage, progress: Progress | None = None) -> RestoredFile:
        """Restore the file of a message; then it is durable.

        A message without the properties of a file gets a name made from its label. Raises
        `FileRefused` for a path that cannot be restored, `TargetUnwritable`, and as
        `LargeMessage.save_to` does.
        """
        origin = _origin_of(message)
        check_path(origin.path)
        source, number = origin.source, origin.number
        part = self._hidden / f"{source}-{number}{_PART[0]}"
        try:
            known = self._known(origin) or self._passed_over(origin)
            if known is not None:
                return known
            part.unlink(missing_ok=True)
            behind = self._sync and message.size > _SYNCED_BEHIND_BYTES
            message.save_to(part, progress, sync=behind)
            finish_body(part, message, preserve=self._preserve, sync=self._sync)
            with self._lock:
                return self._known(origin) or self._name(origin, part)
        except DrayError:
            # Some are errors of the system, too.
            raise
        except (OSError, sqlite3.Error) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise TargetUnwritable(
                f"{origin.path!r} cannot be written below {self.root}: {why};"
                " free room or give another directory, the message is still in its queue",
                path=str(self.root / origin.path),
            ) from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _known(self, origin: ArrivedFile) -> RestoredFile | None:
        """The file of a message that came before, or of a newer version."""
        before = self._ledger.version(origin.path, origin.source)
        if before is None:
            return None
        place = self.root / before.place
        if before.number == origin.number:
            return RestoredFile(place) if self._stands(before) else None
        if origin.number < before.number and origin.sent_us < before.sent_us:
            return RestoredFile(place, "a newer version was received before")
        return None

    def _passed_over(self, origin: ArrivedFile) -> RestoredFile | None:
        """Find out before the body comes that it is not wanted."""
        if self._on_conflict not in {"skip", "fail"} or look_at(self.root, origin.path) is None:
            return None
        before = self._ledger.version(origin.path, origin.source)
        if before is not None and self._stands(before):
            return None
        return self._conflict(origin)

    def _conflict(self, origin: ArrivedFile) -> RestoredFile:
        if self._on_conflict == "skip":
            return RestoredFile(self.root / origin.path, "another file has its name")
        raise FileRefused(
            f"the file {origin.path!r} cannot be restored here: another file has its name; remove"
            " that one, or let the new one get a number",
            path=origin.path,
        )

    def _name(self, origin: ArrivedFile, part: Path) -> RestoredFile:
        """Give the body its name; the ledger knows before and after."""
        before = self._ledger.version(origin.path, origin.source)
        replaces = before is not None and self._stands(before)
        above, _, last = origin.path.rpartition("/")
        name = before.place.rpartition("/")[2] if before is not None and replaces else last
        body = part.lstat()
        count = 1
        with folder_of(self.root, origin.path, make=True, sync=self._sync) as folder:
            while True:
                there = _lstat(name, folder)
                replace = there is not None and (replaces or self._on_conflict == "replace")
                if there is not None and not replace and self._on_conflict == "number":
                    count += 1
                    name = _short(last, count)
                    continue
                if there is not None and (not replace or stat.S_ISDIR(there.st_mode)):
                    return self._conflict(origin)
                place = f"{above}/{name}" if above else name
                marks = (body.st_size, body.st_mtime_ns, body.st_ino)
                self._ledger.begin(
                    origin, PlacedVersion(origin.number, origin.sent_us, place, *marks)
                )
                try:
                    if replace:
                        os.replace(part, name, dst_dir_fd=folder)
                    else:
                        os.link(part, name, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    # Somebody else has taken the name just now.
                    continue
                if self._sync:
                    os.fsync(folder)
                self._ledger.finish(origin.path, origin.source, placed=True)
                return RestoredFile(self.root / place)

    def _stands(self, version: PlacedVersion) -> bool:
        """Whether a version still stands at its place, as it was received."""
        found = look_at(self.root, version.place)
        return (
            found is not None
            and stat.S_ISREG(found.st_mode)
            and (found.st_size, found.st_mtime_ns, found.st_ino) == version.marks
        )


def _origin_of(message: LargeMessage) -> ArrivedFile:
    source, number = split_id(message.sequence_id)
    return ArrivedFile(path_of(message), source, number, int((message.sent_time or 0) * 1_000_000))


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _short(name: str, count: int) -> str:
    """A numbered name that a file system accepts."""
    found = numbered(name, count)
    while len(os.fsencode(found)) > NAME_BYTES_MAX:
        name = name[:-1]
        found = numbered(name, count)
    return found
