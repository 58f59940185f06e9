"""Heap files are synced while the rest of a large transaction still comes.

So its commit finds little left to do, and the disk is not idle meanwhile. One flush at a time, in
the thread that writes checkpoints; what each took tells the backlog how fast the disk is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.pacing.worker import Worker
from dray.store.disk import File
from dray.store.limits import HEAP_FILE_BYTES
from dray.store.store import Store

Time = Callable[[], float]
Failed = Callable[[BaseException], None]


class Flush:
    """Heap files that are synced before any turn asks for it, and how long that took."""

    def __init__(self, files: list[File], size: int, time: Time) -> None:
        """Sync `files`, which have `size` unsynced bytes; `time` is the loop's."""
        self.files, self.size = files, size
        self.seconds = 0.0
        self._time = time

    def run(self) -> None:
        """Sync them, in any thread. Raises StorePoisoned."""
        began = self._time()
        for file in self.files:
            file.sync()
        self.seconds = self._time() - began


class Flushing:
    """Begins a flush for every heap file's worth of payload; driven in the loop's thread."""

    def __init__(
        self, store: Store, backlog: DiskBacklog, worker: Worker, *, time: Time, failed: Failed
    ) -> None:
        """Begin without payload; `failed` is told of a flush that was not possible."""
        self._store = store
        self._backlog = backlog
        self._worker = worker
        self._time = time
        self._failed = failed
        self.bytes = 0
        """Payload that came since the last flush began."""
        self._under_way = self._over = False

    def go_on(self) -> None:
        """Begin a flush, if enough has come and none is under way."""
        if self.bytes >= HEAP_FILE_BYTES:
            self._begin()

    def give_up(self) -> None:
        """Begin no other; of the one that is under way only a failure is told."""
        self._over = True

    def _begin(self) -> None:
        if self._under_way or self._over:
            return
        files = self._store.flush_hint()
        self.bytes = 0
        if files:
            self._under_way = True
            flush = Flush(files, self._store.handed_out_bytes, self._time)
            self._worker.submit(flush.run, partial(self._ended, flush))

    def _ended(self, flush: Flush, error: BaseException | None) -> None:
        if error is not None:
            self._failed(error)
            self._over = True
        if self._over:
            return
        self._under_way = False
        self._store.flushed(flush.files)
        self._backlog.took(flush.size, flush.seconds)
        if self.bytes >= HEAP_FILE_BYTES or self._backlog.is_full:
            self._begin()
        self._backlog.shrank()
