"""Bytes between clients' files and heap files, moved by threads so that the loop need not wait.

Whoever hands over a descriptor hands over its end too: it is closed by the thread that used it,
whatever becomes of the connection meanwhile. A file is looked at there as well, because even that
may wait for a file system.

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

from dray.daemon.limits import COPY_PIECE_BYTES, COPY_THREADS, FETCH_BUFFERS
from dray.daemon.worker import Worker
from dray.model.limits import FRAME_BODY_BYTES_MAX

_NOT_HERE = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
"""Copying in the kernel is not for these two files; through memory it may go."""
Fetched = Callable[[memoryview], None]
Copied = Callable[[BaseException | None], None]


class UnfitFileError(OSError):
    """A descriptor of something that is not a regular file, or was not opened for this."""


class Piece(NamedTuple):
    """A range of a file that is open under a descriptor."""

    descriptor: int
    offset: int
    length: int


class Copier:
    """A few threads and a few buffers, shared by all connections of a daemon in their turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; buffers are made when they are first needed."""
        self.files_lent = 0
        """Descriptors of clients' files that are open, on all connections."""
        self._workers = [Worker(loop, f"dray-copy-{count + 1}") for count in range(COPY_THREADS)]
        self._next = 0
        self._buffers: list[memoryview] = []
        self._made = 0
        self._waiting: deque[tuple[Piece, bytes, Fetched]] = deque()

    def fetch(self, piece: Piece, before: bytes, told: Fetched) -> None:
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

    def copy(self, source: Piece, target: Piece, told: Copied) -> None:
        """Copy a piece, descriptors of both given up; `told` gets the error, or None."""
        self._submit(partial(_copy_and_close, source, target), told)

    async def idle(self) -> None:
        """Wait until everything begun so far has been done and told."""
        while self._waiting:
            await self._workers[0].idle()
        for worker in self._workers:
            await worker.idle()

    def stop(self) -> None:
        """End the threads, which must be idle."""
        for worker in self._workers:
            worker.stop()

    def _fetch_next(self) -> None:
        while self._waiting:
            buffer = self._buffer()
            if buffer is None:
                return
            piece, before, told = self._waiting.popleft()
            buffer[: len(before)] = before
            whole = buffer[: len(before) + piece.length]
            job = partial(_read_and_close, piece, whole[len(before) :])
            self._submit(job, partial(self._fetched, whole, told))

    def _fetched(self, whole: memoryview, told: Fetched, error: BaseException | None) -> None:
        if error is None:
            told(whole)
            return
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

    def _submit(self, job: Callable[[], object], outcome: Copied) -> None:
        self._next = (self._next + 1) % len(self._workers)
        self._workers[self._next].submit(job, outcome)


_NOTHING = memoryview(b"")


def _read_and_close(piece: Piece, view: memoryview) -> None:
    try:
        _check(piece.descriptor, writable=False)
        _read(piece, view)
    finally:
        os.close(piece.descriptor)


def _copy_and_close(source: Piece, target: Piece) -> None:
    try:
        _check(target.descriptor, writable=True)
        _copy(source, target)
    finally:
        os.close(source.descriptor)
        os.close(target.descriptor)


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


def _read(piece: Piece, view: memoryview) -> None:
    done = 0
    while done < len(view):
        got = preadv(piece.descriptor, [view[done:]], piece.offset + done)
        if not got:
            raise UnfitFileError(errno.ENODATA, "it ends before the range that was lent")
        done += got


def _copy(source: Piece, target: Piece) -> None:
    done = 0
    while done < source.length:
        wanted = min(COPY_PIECE_BYTES, source.length - done)
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
            copied = _copy_through_memory(source, target, done, wanted)
        if not copied:
            raise UnfitFileError(errno.EIO, "the heap file ends before the record")
        done += copied


def _copy_through_memory(source: Piece, target: Piece, done: int, wanted: int) -> int:
    data = pread(source.descriptor, wanted, source.offset + done)
    rest = memoryview(data)
    while rest:
        written = pwrite(target.descriptor, rest, target.offset + done + len(data) - len(rest))
        rest = rest[written:]
    return len(data)
