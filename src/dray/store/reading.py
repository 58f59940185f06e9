"""A storage folder that is looked at and never changed: for `dray check` and `dray inspect`.

It has no call that would change a byte. A live manager's lock is respected; a folder that was
copied without a lock file can be read too.
"""

from __future__ import annotations

import os
from typing import Final

from dray.errors import StoreCorrupt, StoreError
from dray.own_files import hindrance
from dray.store.decisions import BRING_IT_BACK
from dray.store.disk import (
    FOLDER_NAME,
    LOCK_NAME,
    MESSAGE_FILE_UNREADABLE,
    NO_ACCESS,
    NO_DESCRIPTORS,
    ReadableFile,
    no_access,
    translated,
    translation,
)
from dray.store.heap.heap import Extent, file_name
from dray.store.heap.heap_file import missing_file, short_file
from dray.store.location import refuse_if_moved
from dray.store.manifest import read_manifest
from dray.store.real_disk import RealFile, StoreFolder

_DESCRIPTORS_MAX: Final = 64


class ReadOnlyDisk(StoreFolder):
    """The folder `storage` under a data directory, as it is."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the data directory at `path`. Raises StoreMoved, StoreError if there is none."""
        super().__init__(path)
        refuse_if_moved(self.path)
        if not self._folder.is_dir():
            sentence = (
                f"{self.path} is not a data directory, because it has no folder {FOLDER_NAME!r};"
                " name the directory of `dray serve --data`"
            )
            raise StoreError(sentence, directory=str(self.path))

    def lock(self) -> None:
        """Keep managers out while we read. Raises StoreLocked if one is in."""
        try:
            # Nobody writes to a pipe of that name, and so nobody would end the wait for it.
            descriptor = os.open(self._folder / LOCK_NAME, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise translation(error, LOCK_NAME, "open") from error
            raise no_access(error, LOCK_NAME, "open") from error
        self._take_lock(descriptor)
        self._lock = descriptor

    def open(self, name: str) -> ReadableFile:
        """Open for reading. Raises StoreCorrupt if it is missing."""
        try:
            # A pipe in the place of a file is looked at, and not waited for.
            return RealFile(name, os.open(self._folder / name, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno in NO_ACCESS or error.errno in NO_DESCRIPTORS:
                raise translation(error, name, "open") from error
            sentence = f"{name} cannot be opened: {error.strerror}; {BRING_IT_BACK}"
            raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name) from error

    def hindrance(self, name: str) -> str:
        """Why a start would not open the file of that name, for its kind or its names; or empty."""
        with translated(name, "look for"):
            return hindrance(self._folder / name)

    def names(self, folder: str = "") -> list[str]:
        """The files of a folder, sorted; none if there is no such folder."""
        with translated(folder or FOLDER_NAME, "list"):
            if not (self._folder / folder).is_dir():
                return []
            with os.scandir(self._folder / folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())

    def had_store(self) -> bool:
        """Whether the manifest tells so; one that cannot be read tells nothing."""
        try:
            manifest = read_manifest(self.path)
        except (OSError, ValueError):
            return False
        return manifest is not None and manifest.store


class HeapReader:
    """Reads extents of heap files; keeps some of them open."""

    def __init__(self, disk: ReadOnlyDisk) -> None:
        """Read from `disk`."""
        self._disk = disk
        self._files: dict[int, ReadableFile] = {}
        self._only_in_log: dict[int, list[tuple[int, bytes]]] = {}

    def lay_over(self, extent: Extent, image: bytes) -> None:
        """Read `image` where `extent` lies: the next start copies it there from the log."""
        self._only_in_log.setdefault(extent.file, []).append((extent.offset, image))

    def read(self, extent: Extent, *, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of `extent`, or `length` of them from `offset`. Raises StoreCorrupt."""
        rest = extent.length - offset
        image = bytearray(rest if length is None else min(length, rest))
        if self.read_into(memoryview(image), extent.file, extent.offset + offset) != len(image):
            raise short_file(extent.file)
        return bytes(image)

    def read_into(self, view: memoryview, number: int, start: int) -> int:
        """Fill `view` with bytes of heap file `number` from `start`; say how many there were.

        Raises StoreCorrupt.
        """
        got = self.file(number).read_into(view, start)
        for offset, image in self._only_in_log.get(number, ()):
            at = max(offset - start, 0)
            piece = image[max(start - offset, 0) :][: max(got - at, 0)]
            view[at : at + len(piece)] = piece
        return got

    def file(self, number: int) -> ReadableFile:
        """Heap file `number`, open. Raises StoreCorrupt if it is missing."""
        found = self._files.get(number)
        if found is None:
            name = file_name(number)
            if not self._disk.exists(name):
                raise missing_file(number)
            if len(self._files) >= _DESCRIPTORS_MAX:
                self.close()
            found = self._files[number] = self._disk.open(name)
        return found

    def close(self) -> None:
        """Close all files; they are opened again when they are read again."""
        for file in self._files.values():
            file.close()
        self._files.clear()
