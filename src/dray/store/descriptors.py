"""Which heap files have a descriptor: a few hundred at a time, for there may be thousands of files.

The one that was not used for longest goes first. A file that is dirty, or that a sync has captured,
keeps its descriptor, because the kernel reports a failed write-back only to descriptors that were
open when it failed. Whoever writes more files than there are descriptors without syncing pays for
it here, one file at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from dray.store.disk import Disk, File
from dray.store.heap_file import Capture, HeapFile
from dray.store.kinds import file_name
from dray.store.limits import HEAP_DESCRIPTORS


class Descriptors:
    """The heap files that are open in the operating system's sense."""

    def __init__(self, disk: Disk, synced: Callable[[Capture], None]) -> None:
        """Open files of `disk`; tell `synced` of each that had to be synced to make room."""
        self._disk = disk
        self._synced = synced
        self._held: OrderedDict[int, HeapFile] = OrderedDict()

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

    def give_up(self, heap_file: HeapFile) -> None:
        """Close its file, if it is open."""
        if heap_file.file is not None:
            heap_file.file.close()
            heap_file.file = None
            del self._held[heap_file.number]

    def close(self) -> None:
        """Give all of them back."""
        for heap_file in list(self._held.values()):
            self.give_up(heap_file)

    def _room_was_made(self) -> bool:
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
        self.give_up(unsynced)
        return True
