"""The disk of the operating system: files by descriptor, the folder `storage`, its lock."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from dray.errors import StoreError, StoreLocked, StorePoisoned
from dray.forks import keep_from_children
from dray.fsync import sync_folder
from dray.own_files import make_own_folder, open_own, open_own_existing
from dray.store.disk import (
    FOLDER_NAME,
    LOCK_NAME,
    LOOK_AT_THE_DISK,
    NO_DESCRIPTORS,
    SUB_FOLDERS,
    ReadableBuffer,
    translated,
    translation,
    unreadable,
)
from dray.store.location import check_location

_PID_CHARACTERS: Final = 31


def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux has a call for which Python has no function."""
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return cast("Callable[[int, int, int, int], int]", found)


_sync_file_range = _find_sync_file_range()
_BEGIN_WRITING: Final = 2
"""SYNC_FILE_RANGE_WRITE."""


class OwnMarks:
    """Changes of names that this process announces, so that the audit knows that they are ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._announced: Counter[tuple[str, str]] = Counter()

    def announce(self, act: str, name: str) -> None:
        """A name "comes" or "goes", or a file that was open for writing "closes"."""
        with self._lock:
            self._announced[act, name] += 1

    def take(self, act: str, name: str) -> bool:
        """Whether that was announced; an announcement counts for one event."""
        with self._lock:
            if not self._announced[act, name]:
                del self._announced[act, name]
                return False
            self._announced[act, name] -= 1
            return True


class RealFile:
    """A file of the operating system, by descriptor."""

    def __init__(self, name: str, descriptor: int, changes: OwnMarks | None = None) -> None:
        """Own the `descriptor` of the file called `name`."""
        self.name = name
        self._descriptor = descriptor
        self._changes = changes
        keep_from_children(self)

    def write(self, data: ReadableBuffer, offset: int) -> None:
        """Write all of `data`; the system may take it in several bites."""
        try:
            written = os.pwrite(self._descriptor, data, offset)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += os.pwrite(self._descriptor, rest, offset + written)
        except OSError as error:
            raise translation(error, self.name, "write") from error

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill `view`; fewer bytes only at the end of the file. Raises StoreCorrupt."""
        done = 0
        try:
            while done < len(view):
                got = os.preadv(self._descriptor, [view[done:]], offset + done)
                if not got:
                    break
                done += got
        except OSError as error:
            raise unreadable(error, self.name) from error
        return done

    def begin_writing(self) -> None:
        """Hand dirty pages to the disk, where the system can do so without waiting for it.

        An error stays with the file until `sync`, which the store calls in any case.
        """
        if _sync_file_range is not None:
            _sync_file_range(self._descriptor, 0, 0, _BEGIN_WRITING)

    def sync(self) -> None:
        """Flush with fdatasync, which lets other threads run."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            # For want of room too: what the kernel could not place it may have dropped.
            sentence = f"could not sync {self.name}: {error.strerror}; {LOOK_AT_THE_DISK}"
            raise StorePoisoned(sentence, file=self.name) from error

    def truncate(self, size: int) -> None:
        """Cut or extend to `size`."""
        with translated(self.name, "truncate"):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._descriptor).st_size

    def descriptor(self) -> int:
        """Give the descriptor, good until the store is called next."""
        return self._descriptor

    def fileno(self) -> int:
        """The same; below 0 once it is closed."""
        return self._descriptor

    def close(self) -> None:
        """Close once; later calls do nothing."""
        if self._descriptor != -1:
            if self._changes is not None:
                self._changes.announce("closes", self.name)
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class StoreFolder:
    """The folder `storage` under a data directory, as far as nobody changes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the data directory at `path`."""
        self.path = Path(path)
        self._folder = self.path / FOLDER_NAME
        self._lock = -1

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with translated(name, "look for"):
            return (self._folder / name).exists()

    def not_files(self) -> list[str]:
        """Names in the folder that are not files, sorted."""
        with translated(FOLDER_NAME, "list"), os.scandir(self._folder) as entries:
            return sorted(entry.name for entry in entries if not entry.is_file())

    def close(self) -> None:
        """Give up the lock; the file stays, because removing it would race with the next owner."""
        lock, self._lock = self._lock, -1
        if lock != -1:
            # A child that has just been forked holds the lock too, until it closes its copy.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _take_lock(self, descriptor: int) -> None:
        """Lock the file of a descriptor, or close it and raise StoreLocked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            told = os.pread(descriptor, _PID_CHARACTERS, 0).decode("ascii", "replace")
            owner = told.strip() or "unknown"
            os.close(descriptor)
            sentence = f"{self.path} belongs to process {owner}, which is alive; stop it first"
            raise StoreLocked(sentence, directory=str(self.path), pid=owner) from error


class RealDisk(StoreFolder):
    """The folder `storage` under a data directory, made if missing."""

    def __init__(self, path: str | os.PathLike[str], *, changes: OwnMarks | None = None) -> None:
        """Take the data directory at `path`, telling `changes`. Raises StoreMoved, StoreError."""
        super().__init__(path)
        self._changes = changes
        check_location(self.path)
        try:
            made = [each for each in (self.path, *self.path.parents) if not each.exists()]
            if made:
                make_own_folder(self.path)
            make_own_folder(self._folder)
            # Without its name in the folder above, a power failure takes a new directory whole.
            for each in (self._folder, *made):
                sync_folder(each.parent)
        except OSError as error:
            raise self._unusable(error) from error

    def lock(self) -> None:
        """Hold an exclusive lock on `storage/lock`, with the process id inside for people."""
        try:
            descriptor = open_own(self._folder / LOCK_NAME)
        except OSError as error:
            raise self._unusable(error) from error
        self._take_lock(descriptor)
        try:
            # The store may have been moved away while we waited at the door.
            check_location(self.path)
            self._check_folders()
        except StoreError:
            os.close(descriptor)
            raise
        try:
            # As long each time, over the one before: a full disk keeps nobody out of his store.
            os.pwrite(descriptor, b"%-*d\n" % (_PID_CHARACTERS, os.getpid()), 0)
        except OSError as error:
            os.close(descriptor)
            raise translation(error, LOCK_NAME, "write") from error
        self._lock = descriptor
        # A child that held it, too, would keep the store locked when this process has ended.
        keep_from_children(self)

    def fileno(self) -> int:
        """The descriptor of the lock; below 0 without one."""
        return self._lock

    def open(self, name: str, *, size: int = 0) -> RealFile:
        """Open for reading and writing; what found no room leaves nothing behind."""
        path = self._folder / name
        with translated(name, "open"):
            try:
                descriptor, known = open_own_existing(path), True
            except FileNotFoundError:
                self._make_folder(name)
                self._announce("comes", name)
                descriptor, known = open_own(path), False
            file = RealFile(name, descriptor, self._changes)
            before = file.size() if size else 0
            try:
                if before < size:
                    os.posix_fallocate(descriptor, 0, size)
            except OSError:
                if known:
                    # The call took the room that there was before it failed.
                    os.ftruncate(descriptor, before)
                file.close()
                if not known:
                    self._announce("goes", name)
                    path.unlink()
                raise
        return file

    def open_to_read(self, name: str) -> int:
        """Open a file that is there; nothing is told to the audit, which sees no such opening."""
        try:
            return os.open(f"{self._folder}/{name}", os.O_RDONLY)
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise translation(error, name, "open") from error
            raise unreadable(error, name) from error

    def names(self, folder: str = "") -> list[str]:
        """The files of a folder, sorted; none if there is no such folder yet."""
        with translated(folder or FOLDER_NAME, "list"):
            if folder and not (self._folder / folder).exists():
                return []
            with os.scandir(self._folder / folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())

    def had_store(self) -> bool:
        """Nothing tells: this one keeps no manifest."""
        return False

    def rename(self, old: str, new: str) -> None:
        """Rename, also into another folder."""
        with translated(old, "rename"):
            self._make_folder(new)
            self._announce("goes", old)
            self._announce("comes", new)
            (self._folder / old).rename(self._folder / new)

    def remove(self, name: str) -> None:
        """Unlink."""
        with translated(name, "remove"):
            self._announce("goes", name)
            (self._folder / name).unlink()

    def sync_directory(self, folder: str = "") -> None:
        """Flush the folder itself."""
        with translated(folder or FOLDER_NAME, "sync"):
            self._make_folder(f"{folder}/")
            sync_folder(self._folder / folder)

    def _check_folders(self) -> None:
        """Refuse now what would end the first request that makes a file in one of the folders."""
        effective = os.access in os.supports_effective_ids
        for folder in (self._folder, *(self._folder / each for each in SUB_FOLDERS)):
            wanted = os.W_OK | os.X_OK
            if folder.is_dir() and not os.access(folder, wanted, effective_ids=effective):
                raise self._unusable(
                    PermissionError(errno.EACCES, "Permission denied", str(folder))
                )

    def _unusable(self, error: OSError) -> StoreError:
        """Nothing of a store was touched yet: another user's, read-only, no folder..."""
        within = os.path.relpath(error.filename or self.path, self.path)
        what = "" if within == os.curdir else f" {within}:"
        sentence = (
            f"{self.path} cannot be used as data directory:{what} {error.strerror}; name another,"
            " or let the user who runs this read and write it"
        )
        return StoreError(sentence, directory=str(self.path))

    def _make_folder(self, name: str) -> None:
        folder = self._folder / os.path.dirname(name)
        if not folder.exists():
            self._announce("comes", os.path.dirname(name))
            make_own_folder(folder)
            sync_folder(self._folder)

    def _announce(self, act: str, name: str) -> None:
        if self._changes is not None:
            self._changes.announce(act, name)

    def free_bytes(self) -> int:
        """Room the file system gives to ordinary users."""
        status = self._status()
        return status.f_bavail * status.f_frsize

    def size_bytes(self) -> int:
        """The size of the file system in bytes."""
        status = self._status()
        return status.f_blocks * status.f_frsize

    def _status(self) -> os.statvfs_result:
        try:
            # Asked for with every message: by descriptor, where there is one.
            return os.statvfs(self._folder if self._lock == -1 else self._lock)
        except OSError as error:
            raise translation(error, FOLDER_NAME, "measure") from error
