"""Syncs and checkpoints under way: begun in the owner's thread, run in any, ended in the owner's.

A sync captured its files when it began, so the owner may go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from dray.errors import StoreFull
from dray.store.disk import Disk, File
from dray.store.heap.heap_file import Capture
from dray.store.heap.maps import encode_map
from dray.store.log.checkpoint import Mark, SnapshotWriter
from dray.store.lqs import QueueFiles


class Sync:
    """One sync under way: begun in the owner's thread, run in any, ended in the owner's."""

    def __init__(
        self,
        disk: Disk,
        log: File,
        captures: list[Capture],
        *,
        reached: SyncReached,
        queue_files: QueueFiles | None,
    ) -> None:
        """Make `captures`, `log` and `queue_files` durable, up to what `reached` says."""
        self._disk = disk
        self._log = log
        self._queue_files = queue_files
        self.captures = captures
        self.reached = reached
        self._has_heap_half = bool(captures) or reached.new_names
        self.heap_bytes = 0
        """The heap bytes that this makes durable."""
        for each in captures:
            self.heap_bytes += each.position - each.start
        self.done = False

    def run(self) -> None:
        """Sync heap files, new names, the log, then queues' files. Raises StorePoisoned.

        The log is begun with before the heap is waited for (docs/decisions/0091).
        """
        if self.captures:
            self._log.begin_writing()
        if self._has_heap_half:
            self._sync_heap()
        self._sync_log()
        self.done = True

    def halves(self) -> list[Callable[[], None]]:
        """The parts of `run`, in no particular order, for threads that run them side by side.

        The runner sets `done` when all calls have returned. Each raises StorePoisoned.
        """
        return [self._sync_heap, self._sync_log] if self._has_heap_half else [self._sync_log]

    def _sync_log(self) -> None:
        self._log.sync()
        if self._queue_files is not None and self.reached.queue_files:
            self._queue_files.flush(self.reached.queue_files)

    def _sync_heap(self) -> None:
        # One behind the other, but the disk works at all of them while the first is waited for.
        for capture in self.captures[1:]:
            capture.file.begin_writing()
        for capture in self.captures:
            capture.file.sync()
        if self.reached.new_names:
            self._disk.sync_directory()


class SyncReached(NamedTuple):
    """The facts and files that are durable when a sync has ended."""

    lsn: int
    facts: int
    names_made: int
    new_names: bool
    queue_files: int


reached_of: Final[Callable[[tuple[int, int, int, bool, int]], SyncReached]] = partial(
    tuple.__new__, SyncReached
)


class Draft(NamedTuple):
    """One half of a checkpoint: where it goes, and what is to be drawn piece by piece."""

    writer: SnapshotWriter
    snapshot: Iterable[bytes]


class Checkpoint:
    """One checkpoint under way. `refused` says why it could not be, if the disk is full."""

    def __init__(self, sync: Sync, drafts: list[Draft], mark: Mark, live_map: LiveMap) -> None:
        """Write snapshots and make them valid, each as `mark` in its own file, after `sync`."""
        self.sync = sync
        self.marks = [mark._replace(name=draft.writer.file.name) for draft in drafts]
        self.refused: StoreFull | None = None
        self.done = False
        self._drafts = drafts
        self._map = live_map

    def run(self) -> None:
        """Write, sync what was written of, then make it valid. Raises StorePoisoned.

        On a full disk the sync is done all the same.
        """
        try:
            self._write()
        except StoreFull as error:
            self.refused = error
        self.sync.run()
        try:
            if self.refused is None:
                self._map.write()
                self._finish()
                self._sync_files()
        except StoreFull as error:
            self.refused = error
        self.done = True

    def _write(self) -> None:
        for draft in self._drafts:
            draft.writer.write(draft.snapshot)

    def _finish(self) -> None:
        pairs = zip(self._drafts, self.marks, strict=True)
        self.marks = [draft.writer.finish(mark) for draft, mark in pairs]

    def _sync_files(self) -> None:
        for draft in self._drafts:
            draft.writer.file.sync()


class LiveMap:
    """A map of live blocks about to be written; it is missed only by those who check."""

    def __init__(self, file: File, generation: int, blocks: Mapping[int, bytes]) -> None:
        """Write the map of a generation over `file`; by heap file, the live `blocks` of now."""
        self._file = file
        self.generation = generation
        self._blocks = blocks

    def write(self) -> None:
        """Write and sync it. A disk too full for it does without."""
        try:
            self._file.write(encode_map(self.generation, self._blocks), 0)
        except StoreFull:
            return
        self._file.sync()
