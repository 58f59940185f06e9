"""A file that is there whole and durable, or not at all.

What is in it is synced behind the writer's back from time to time, so that the last sync finds
little left to do and the disk is busy from the start.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from dray.errors import TargetUnwritable
from dray.model.limits import MIB

_SYNC_BYTES = 32 * MIB
"""As much as a disk writes in the time that a sync takes to be asked for and answered, and more."""


class PartialFile:
    """Grows as `<path>.partial`. Every method raises `TargetUnwritable`."""

    def __init__(self, target: Path, *, going_on: bool = False) -> None:
        """Begin it, or open what `keep` has left."""
        self.target = target
        self._partial = target.with_name(target.name + ".partial")
        self._syncer: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None
        self._unsynced = 0
        try:
            is_there = going_on and self._partial.exists()
            self._file = self._partial.open("r+b" if is_there else "w+b", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from error

    @property
    def descriptor(self) -> int:
        """For those who write into it at places of their own; they tell `grown`."""
        return self._file.fileno()

    def write(self, piece: memoryview) -> None:
        """Write all of a piece behind what was written before."""
        count = len(piece)
        try:
            while piece:
                piece = piece[os.write(self._file.fileno(), piece) :]
        except OSError as error:
            raise self._unwritable(error) from error
        self.grown(count)

    def put(self, piece: memoryview, offset: int) -> None:
        """Write all of a piece at `offset`, over what is there."""
        try:
            while piece:
                count = os.pwrite(self._file.fileno(), piece, offset)
                piece, offset = piece[count:], offset + count
        except OSError as error:
            raise self._unwritable(error) from error

    def read_back(self, view: memoryview, offset: int) -> None:
        """Fill `view` with what was written at `offset`."""
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._file.fileno(), [view[done:]], offset + done)
                if not count:
                    raise self.spoilt("somebody cut it short")
                done += count
        except OSError as error:
            raise self._unwritable(error) from error

    def grown(self, count: int) -> None:
        """So many bytes more were written: begin to sync them if they have become many."""
        self._unsynced += count
        if self._unsynced < _SYNC_BYTES or not (self._syncing is None or self._syncing.done()):
            return
        self._synced()
        self._unsynced = 0
        if self._syncer is None:
            self._syncer = ThreadPoolExecutor(1, "dray-file-sync")
        self._syncing = self._syncer.submit(os.fdatasync, self._file.fileno())

    def finish(self) -> None:
        """Make it durable under its own name."""
        self._synced()
        try:
            os.fsync(self._file.fileno())
            self._close()
            self._partial.replace(self.target)
            _sync_directory(self.target.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def length(self) -> int:
        """How many bytes there are."""
        return os.fstat(self._file.fileno()).st_size

    def cut(self, length: int) -> None:
        """Keep so many bytes from the beginning; the next are written behind them."""
        try:
            self._file.truncate(length)
            self._file.seek(length)
        except OSError as error:
            raise self._unwritable(error) from error

    def keep(self) -> None:
        """Leave what there is of it for one who goes on."""
        if self._syncing is not None:
            # How it ends is of no interest, but it must not sync what gets our descriptor next.
            self._syncing.exception()
        self._close()

    def discard(self) -> None:
        """Remove what there is of it."""
        self.keep()
        with suppress(FileNotFoundError):
            self._partial.unlink()

    def _synced(self) -> None:
        """Wait for the sync that is under way. The kernel tells of a failed one only once."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            try:
                syncing.result()
            except OSError as error:
                raise self._unwritable(error) from error

    def _close(self) -> None:
        if self._syncer is not None:
            self._syncer.shutdown()
        self._file.close()

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return self.spoilt(error.strerror or str(error))

    def spoilt(self, reason: str) -> TargetUnwritable:
        """What to raise when writing into it failed, here or at the queue manager."""
        return TargetUnwritable(
            f"{self.target} cannot be written: {reason}; nothing of it was kept,"
            " free room or give another path, the message is still there",
            path=str(self.target),
        )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
