"""The heap files that have a descriptor: a few hundred at a time of what may be thousands.

The one that was not used for longest goes first. A file that is dirty, or that a sync has captured,
keeps its descriptor, because the kernel reports a failed write-back only to descriptors that were
open when it failed. A caller that writes more files than there are descriptors without syncing pays
for it here, one file at a time.

Reads have a few descriptors of their own, which cannot be written to. A message of many files
passes through those and leaves the others as they were; and the audit does not hear of each file
that is closed, as it must of every descriptor to which something could have been written.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable

from dray.store.disk import Disk, File
from dray.store.heap.heap_file import Capture, HeapFile
from dray.store.kinds import file_name
from dray.store.limits import HEAP_DESCRIPTORS, HEAP_READERS


class Descriptors:
    """The heap files that are open in the operating system's sense."""

    def __init__(self, disk: Disk, synced: Callable[[Capture], None]) -> None:
        """Open files of `disk`; tell `synced` of each that had to be synced to make room."""
        self._disk = disk
        self._synced = synced
        self._held: OrderedDict[int, HeapFile] = OrderedDict()
        self._read: OrderedDict[int, int] = OrderedDict()

    def file(self, heap_file: HeapFile, size: int) -> File:
        """The file of `heap_file`, opened with at least `size` bytes if it is not open yet.

        Raises StoreFull, StoreError, StorePoisoned.
        """
        if heap_file.file is not None:
            self._held.move_to_end(heap_file.number)
            return heap_file.file
        while len(self._held) >= HEAP_DESCRIPTORS and self._room_was_made():
            pass
        file = heap_file.file = self._disk.open(file_name(heap_file.number), size=size)
        self._held[heap_file.number] = heap_file
        return file

    def to_read(self, heap_file: HeapFile) -> int:
        """A descriptor for reading, good until the next call of any kind.

        Raises StoreCorrupt, StoreFull.
        """
        if heap_file.file is not None:
            return heap_file.file.descriptor()
        descriptor = self._read.get(heap_file.number)
        if descriptor is None:
            while len(self._read) >= HEAP_READERS:
                os.close(self._read.popitem(last=False)[1])
            descriptor = self._disk.open_to_read(file_name(heap_file.number))
            self._read[heap_file.number] = descriptor
        self._read.move_to_end(heap_file.number)
        return descriptor

    def give_up(self, heap_file: HeapFile) -> None:
        """Close its file, however it is open."""
        descriptor = self._read.pop(heap_file.number, None)
        if descriptor is not None:
            os.close(descriptor)
        if heap_file.file is not None:
            heap_file.file.close()
            heap_file.file = None
            del self._held[heap_file.number]

    def close(self) -> None:
        """Give all of them back."""
        for heap_file in list(self._held.values()):
            self.give_up(heap_file)
        while self._read:
            os.close(self._read.popitem()[1])

    def _room_was_made(self) -> bool:
        """Close one that is clean, or make one clean; whether there was either."""
        unsynced: HeapFile | None = None
        for heap_file in self._held.values():
            if heap_file.pins:
                continue
            if not heap_file.dirty:
                self.give_up(heap_file)
                return True
            unsynced = unsynced or heap_file
        if unsynced is None:
            return False
        assert unsynced.file is not None, "what is held is open"
        capture = unsynced.capture(unsynced.file)
        capture.file.sync()
        self._synced(capture)
        return True
