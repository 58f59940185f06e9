"""The protocols between the store and the machine: files, a directory, a lock.

Everything the store does to a disk goes through these two protocols. `real_disk` has the operating
system's; `dray.testing.disk.SimDisk` is one that forgets what was not synced. Errors of the
operating system are translated here and nowhere else: no room is `StoreFull`, a failed write or
sync is `StorePoisoned`, an unreadable sector is `StoreCorrupt`.

A name may have one folder in it: `lqs/00000010.8774014b`. Folders are made when a file first goes
there and are never removed.

The contract, which the tests in `tests/unit/store/test_disk.py` hold against both:

* what `sync` of a file returned for survives a power loss: its bytes and its size;
* a name that was created, renamed or removed is sure only after `sync_directory` of its folder;
* anything not synced may be there, be gone, or be there in part, in any order.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from dray.errors import StoreCorrupt, StoreError, StoreFull, StorePoisoned
from dray.own_files import NotKeptError

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview

LOCK_NAME: Final = "lock"
FOLDER_NAME: Final = "storage"
SUB_FOLDERS: Final = ("lqs", "quarantine")
"""For the files of queues, and for those that are none of ours."""
NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_ACCESS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
MESSAGE_FILE_UNREADABLE: Final = 2083
LOOK_AT_THE_DISK: Final = (
    "nothing more is written until the next start: check the disk, then start again"
)


_LOOKING: Final = frozenset({"open", "list", "look for"})
"""Acts that leave everything as it was, should they be refused."""


class ReadableFile(Protocol):
    """One file, read at given offsets."""

    name: str

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill `view` from `offset`; say how many bytes there were before the end of the file."""
        ...

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def close(self) -> None:
        """Give the descriptor back."""
        ...


class File(ReadableFile, Protocol):
    """One file, written and read at given offsets."""

    def write(self, data: ReadableBuffer, offset: int) -> None:
        """Write all of `data`. Raises StoreFull for want of room, StorePoisoned otherwise."""
        ...

    def begin_writing(self) -> None:
        """Let the disk begin with what a `sync` will wait for. Promises nothing, tells nothing."""
        ...

    def sync(self) -> None:
        """Make bytes and size durable; any thread may do it. Raises StorePoisoned."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend to `size`."""
        ...

    def descriptor(self) -> int:
        """Give the descriptor, for `os.sendfile`. A simulated file has none and raises."""
        ...


class ReadableDisk(Protocol):
    """The storage folder of one data directory, to be looked at."""

    def open(self, name: str) -> ReadableFile:
        """Open a file that is there. Raises StoreError."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The files of the folder, or of one in it, without its name; sorted."""
        ...

    def not_files(self) -> list[str]:
        """Names in the folder that are not files: folders and the like; sorted."""
        ...

    def had_store(self) -> bool:
        """Whether something tells that a store was here before; asked behind `lock`."""
        ...


class Disk(ReadableDisk, Protocol):
    """The storage folder of one data directory."""

    def lock(self) -> None:
        """Make this process the only one. Raises StoreLocked naming the other."""
        ...

    def open(self, name: str, *, size: int = 0) -> File:
        """Open, made if missing, with at least `size` bytes allocated.

        Raises StoreFull; StoreError for a file that this user may not open; StorePoisoned.
        """
        ...

    def open_to_read(self, name: str) -> int:
        """Open for reading; any thread may do it. Raises StoreCorrupt, StoreFull.

        The descriptor is the caller's, and so is its end.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Give `old` the name `new`, in place of what had it."""
        ...

    def remove(self, name: str) -> None:
        """Take the name away."""
        ...

    def sync_directory(self, folder: str = "") -> None:
        """Make names durable, of one folder; any thread may do it. Raises StorePoisoned."""
        ...

    def free_bytes(self) -> int:
        """Room that is left for this process."""
        ...

    def close(self) -> None:
        """Give up the lock."""
        ...


@contextmanager
def translated(name: str, act: str) -> Iterator[None]:
    """Raise what the operating system says as an error of the store: `act` on `name` failed."""
    try:
        yield
    except OSError as error:
        raise translation(error, name, act) from error


def translation(error: OSError, name: str, act: str) -> StoreError:
    """The error of the store for what the operating system says."""
    reason = f"{act} {name}: {error.strerror}"
    if error.errno in NO_ROOM:
        sentence = f"there is no room to {reason}; free some space there, or raise the limit"
        return StoreFull(sentence, file=name)
    if error.errno in NO_DESCRIPTORS:
        # Nothing was touched, and descriptors come back.
        return StoreFull(f"could not {reason}; raise `ulimit -n`", file=name)
    if isinstance(error, NotKeptError) and act in _LOOKING:
        return StoreError(f"could not {reason}, and start again", file=name)
    if error.errno in NO_ACCESS and act in _LOOKING:
        return no_access(error, name, act)
    return StorePoisoned(f"could not {reason}; {LOOK_AT_THE_DISK}", file=name)


def no_access(error: OSError, name: str, act: str) -> StoreError:
    """The error for a file or folder that this user may not use; nothing of it was touched."""
    sentence = (
        f"could not {act} {name}: {error.strerror}; let the user who runs this read and write it"
        " (chown, chmod), and start again"
    )
    return StoreError(sentence, file=name)


def unreadable(error: OSError, name: str) -> StoreCorrupt:
    """The error for a file that the operating system cannot read."""
    sentence = f"{name} cannot be read: {error.strerror}; check the disk, or restore a backup"
    return StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)
