"""Bytes between clients' files and heap files, moved by threads so that the loop need not wait.

The caller hands over the descriptor for good: the thread that used it closes it, whatever becomes
of the connection. That thread also looks at the file, because even that may wait for a file system;
a file system that does not answer is given up (`copy_threads.py`).

    fetch   client's file -> one of a few buffers     for a record that is being sent
    copy    heap file -> client's file                for a record that is being received
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from collections import deque
from collections.abc import Callable
from functools import partial
from os import copy_file_range, pread, preadv, pwrite
from typing import NamedTuple

from dray.daemon.files.copy_threads import CopyThreads, FileHungError, Freed, Told
from dray.daemon.files.unclaimed import UnclaimedFiles
from dray.daemon.limits import COPY_PIECE_BYTES, FETCH_BUFFERS
from dray.daemon.pacing.backlog import DiskBacklog
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.model.places import Amounts
from dray.store.heap.heap_file import short_file

_NOT_HERE = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
"""Copying in the kernel is not for these two files; through memory it may go."""
Fetched = Callable[[memoryview], None]


class UnfitFileError(OSError):
    """A descriptor of something that is not a regular file, or was not opened for this."""


class FileRegion(NamedTuple):
    """A range of a file that is open under a descriptor."""

    descriptor: int
    offset: int
    length: int


class CopySource(NamedTuple):
    """The place of a record in a heap file, what opens that, and room for what is not copied of it.

    The copied bytes stand behind it.
    """

    file: int
    open: Callable[[], int]
    offset: int
    before: bytearray


class Copier:
    """A few threads and a few buffers, shared by all connections of a daemon in their turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, backlog: DiskBacklog) -> None:
        """Start the threads; buffers are made when they are first needed.

        Nothing is fetched while `backlog` is full.
        """
        self._backlog = backlog
        self.unclaimed = UnclaimedFiles(loop)
        """Connections of which a file came, and its frame not yet."""
        self.files_lent = 0
        """Descriptors of clients' files that are open, on all connections."""
        self.lent_by: Amounts[str] = Amounts()
        """The same of each caller that has a share."""
        self._threads = CopyThreads(loop)
        self._buffers: list[memoryview] = []
        self._made = 0
        self._waiting: deque[tuple[FileRegion, bytes, Fetched]] = deque()

    def fetch(self, piece: FileRegion, before: bytes, told: Fetched) -> None:
        """Read a piece behind the bytes `before` it; `told` gets both, or nothing if that fails.

        The memory is whoever is told's until `give_back`.
        """
        assert len(before) + piece.length <= FRAME_BODY_BYTES_MAX
        self._waiting.append((piece, before, told))
        self._fetch_next()

    def give_back(self, body: memoryview) -> None:
        """Let the next fetch have the memory."""
        if isinstance(body.obj, bytearray):
            self._buffers.append(memoryview(body.obj))
        self._fetch_next()

    def copy(self, source: CopySource, target: FileRegion, told: Told, freed: Freed) -> None:
        """Copy a piece, the target's descriptor given up; `told` gets the error, or None.

        `freed` says that nothing is read from the source any more, which may be long after.
        """
        work = partial(_copy, source, target)
        self._threads.submit(work, (target.descriptor,), told, freed)

    async def idle(self) -> None:
        """Wait until everything begun so far has been told."""
        while self._waiting or self._threads.busy:
            await self._threads.idle()
            await asyncio.sleep(0)

    def stop(self) -> None:
        """End the threads, which must be idle."""
        self._threads.stop()

    def _fetch_next(self) -> None:
        while self._waiting and self._backlog.admits(self._fetch_next):
            buffer = self._buffer()
            if buffer is None:
                return
            piece, before, told = self._waiting.popleft()
            buffer[: len(before)] = before
            whole = buffer[: len(before) + piece.length]
            work = partial(_fetch, piece, whole[len(before) :])
            self._threads.submit(work, (piece.descriptor,), partial(self._fetched, whole, told))

    def _fetched(self, whole: memoryview, told: Fetched, error: BaseException | None) -> None:
        if error is None:
            told(whole)
            return
        if isinstance(error, FileHungError):
            # A thread that is stuck may still write into it: another takes its place.
            self._made -= 1
        else:
            self._buffers.append(memoryview(whole.obj))
        told(_NOTHING)
        self._fetch_next()
        if not isinstance(error, OSError):
            raise error

    def _buffer(self) -> memoryview | None:
        if self._buffers:
            return self._buffers.pop()
        if self._made == FETCH_BUFFERS:
            return None
        self._made += 1
        return memoryview(bytearray(FRAME_BODY_BYTES_MAX))


_NOTHING = memoryview(b"")


def _fetch(piece: FileRegion, view: memoryview) -> None:
    _check(piece.descriptor, writable=False)
    done = 0
    while done < len(view):
        got = preadv(piece.descriptor, [view[done:]], piece.offset + done)
        if not got:
            raise UnfitFileError(errno.ENODATA, "it ends before the range that was lent")
        done += got


def _check(descriptor: int, *, writable: bool) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UnfitFileError(errno.EINVAL, "it is not a regular file")
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    mode = flags & os.O_ACCMODE
    if flags & os.O_PATH or mode == (os.O_RDONLY if writable else os.O_WRONLY):
        raise UnfitFileError(errno.EBADF, "it was not opened for this")
    if writable and flags & os.O_APPEND:
        # Linux would write at its end, whatever place is asked for.
        raise UnfitFileError(errno.EBADF, "it was opened for appending")


def _copy(source: CopySource, target: FileRegion) -> None:
    _check(target.descriptor, writable=True)
    descriptor = source.open()
    try:
        with memoryview(source.before) as room:
            got = preadv(descriptor, [room], source.offset) if room else 0
            if got < len(room):
                raise short_file(source.file)
        copied = _copy_range(FileRegion(descriptor, source.offset + got, target.length), target)
    finally:
        os.close(descriptor)
    if copied < target.length:
        raise short_file(source.file)


def _copy_range(source: FileRegion, target: FileRegion) -> int:
    """Copy as much as there is; say how much."""
    done = 0
    while done < source.length:
        wanted = source.length - done
        try:
            copied = copy_file_range(
                source.descriptor,
                target.descriptor,
                wanted,
                source.offset + done,
                target.offset + done,
            )
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            copied = _copy_through_memory(source, target, done, min(COPY_PIECE_BYTES, wanted))
        if not copied:
            break
        done += copied
    return done


def _copy_through_memory(source: FileRegion, target: FileRegion, done: int, wanted: int) -> int:
    data = pread(source.descriptor, wanted, source.offset + done)
    rest = memoryview(data)
    while rest:
        written = pwrite(target.descriptor, rest, target.offset + done + len(data) - len(rest))
        rest = rest[written:]
    return len(data)
