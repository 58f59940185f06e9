"""A file that is there whole and durable, or not at all.

The file is synced in the background from time to time, so that the last sync finds little left to
do. Where its owner syncs it himself, nothing here does: it is there whole or not at all until the
machine fails.

While it grows it is locked, so that two who save under one name do not write into each other's
file. The lock belongs to the open file and not to the process: a queue manager that was lent the
descriptor holds it too, until its last copy has ended. So whoever comes after a writer that was
killed writes when nothing more can come from that one.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from dray.client.files.steps import reached
from dray.errors import TargetUnwritable
from dray.forks import check_process, is_here, keep_from_children, this_process
from dray.fsync import sync_data, sync_folder
from dray.model.limits import MIB
from dray.own_files import open_own

_SYNC_BYTES = 32 * MIB
"""As much as a disk writes in the time that a sync takes to be asked for and answered, and more."""
_LOCK_S = 5.0
"""The time that the rest of a killed writer has to end: a thousand times what it does,
on a disk that answers."""
_LOCK_PAUSE_S = 0.01
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""File systems that know no locks; there each program has to take care itself."""
_ADVICE = (
    "nothing of it was kept, so free space or name another path; the message is still in its queue"
)
_HERE = -100
_NO_REPLACE = 1
"""AT_FDCWD and RENAME_NOREPLACE of Linux."""
_NO_SUCH_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_MODE = 0o666
"""A file that a receiver saves is for whom the receiver's umask says."""


def partial_of(target: Path) -> Path:
    """The place of a growing file. A path without a last name, such as ".", is in the way."""
    return target.parent / f"{target.name}.partial"


def is_in_the_way(target: Path) -> bool:
    """Whether there is something of that name that a file must not replace, such as a device."""
    return target.exists() and not target.is_file()


class PartialFile:
    """Grows under another name. Every method raises `TargetUnwritable`."""

    def __init__(
        self,
        target: Path,
        *,
        resume: bool = False,
        sync: bool = True,
        partial: Path | None = None,
        advice: str = _ADVICE,
    ) -> None:
        """Begin it, or open what `keep` has left; without `sync` nothing waits for the disk.

        It grows as `partial`, by default `partial_of` the target. `advice` ends each error.
        """
        self.target = target
        self._sync = sync
        self._partial = partial or partial_of(target)
        self._advice = advice
        self._closed = False
        self._process = this_process()
        self._syncer: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None
        self._unsynced = 0
        try:
            in_the_way = is_in_the_way(target)
        except OSError as error:
            raise self._unwritable(error) from error
        if in_the_way:
            raise self.spoilt("it is no regular file")
        try:
            self._descriptor = open_alone(self._partial)
        except OSError as error:
            raise self._unwritable(error) from error
        keep_from_children(self)
        if not resume and self.length():
            self.cut(0)
        reached("file-opened")

    def fileno(self) -> int:
        """Its descriptor; below 0 once it is closed."""
        return -1 if self._closed else self._descriptor

    @property
    def descriptor(self) -> int:
        """For those who write into it at places of their own; they tell `grown`."""
        return self._descriptor

    def write(self, piece: memoryview) -> int:
        """Write all of a piece behind what was written before; give its length."""
        count = len(piece)
        try:
            while piece:
                piece = piece[os.write(self._descriptor, piece) :]
        except OSError as error:
            raise self._unwritable(error) from error
        self.grown(count)
        return count

    def put(self, piece: memoryview, offset: int) -> None:
        """Write all of a piece at `offset`, over what is there."""
        try:
            while piece:
                count = os.pwrite(self._descriptor, piece, offset)
                piece, offset = piece[count:], offset + count
        except OSError as error:
            raise self._unwritable(error) from error

    def read_back(self, view: memoryview, offset: int) -> None:
        """Fill `view` with what was written at `offset`."""
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
                if not count:
                    raise self.spoilt("somebody cut it short")
                done += count
        except OSError as error:
            raise self._unwritable(error) from error

    def grown(self, count: int, then: Callable[[], object] | None = None) -> None:
        """So many bytes more were written: begin to sync them if they have become many.

        If so, a thread calls `then` when they are on disk.
        """
        if not self._sync:
            return
        self._unsynced += count
        if self._unsynced < _SYNC_BYTES or not (self._syncing is None or self._syncing.done()):
            return
        self._synced()
        self._unsynced = 0
        if self._syncer is None:
            self._syncer = ThreadPoolExecutor(1, "dray-file-sync")
        self._syncing = self._syncer.submit(self._sync_behind, then)

    def finish(self, *, sync_name: bool = True, replace: bool = True) -> None:
        """Give it its own name; it is durable under it, unless its owner syncs it.

        Without `sync_name` the owner syncs the directory. Without `replace` a file that has the
        name stays, and the cause of the error is `FileExistsError`.
        """
        check_process(self._process, f"{self.target}, as it is written,", "write it there")
        self._synced()
        try:
            if self._sync:
                os.fsync(self._descriptor)
                reached("file-synced")
            if not is_still(self._partial, self._descriptor):
                raise self.spoilt(f"somebody removed or replaced {self._partial.name}")
            # Under the lock: who waits for it must not find our file under its old name.
            (os.replace if replace else _rename_new)(self._partial, self.target)
            self._close()
            reached("file-named")
            if self._sync and sync_name:
                sync_folder(self.target.parent)
                reached("directory-synced")
        except OSError as error:
            raise self._unwritable(error) from error

    def length(self) -> int:
        """The number of bytes."""
        return os.fstat(self._descriptor).st_size

    def cut(self, length: int) -> None:
        """Keep so many bytes from the beginning; the next are written behind them."""
        try:
            os.ftruncate(self._descriptor, length)
            os.lseek(self._descriptor, length, os.SEEK_SET)
        except OSError as error:
            raise self._unwritable(error) from error

    def keep(self) -> None:
        """Leave what there is of it for one who goes on."""
        if not is_here(self._process):
            # The parent goes on with it, and its thread that syncs is not in this process.
            return
        if self._syncing is not None:
            # Its outcome is of no interest, but it must not sync what gets our descriptor next.
            self._syncing.exception()
        self._close()

    def discard(self) -> None:
        """Remove what there is of it."""
        with suppress(FileNotFoundError):
            # In a child another file has its descriptor, so the parent's stays.
            if not self._closed and is_still(self._partial, self._descriptor):
                self._partial.unlink()
        self.keep()

    def _sync_behind(self, then: Callable[[], object] | None) -> None:
        sync_data(self._descriptor)
        if then is not None:
            then()

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
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return self.spoilt(error.strerror or str(error))

    def spoilt(self, reason: str) -> TargetUnwritable:
        """The error for a failed write, here or at the queue manager."""
        return TargetUnwritable(
            f"{self.target} cannot be written: {reason}; {self._advice}", path=str(self.target)
        )


def _rename_new(path: Path, target: Path) -> None:
    """Rename a file to a name that no other has; raises OSError.

    Where the system or the file system only knows renames that replace, a file that appears in the
    moment after the look is replaced.
    """
    # Most who write files can do without it.
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    reason = errno.ENOSYS
    if rename is not None:
        if rename(_HERE, os.fsencode(path), _HERE, os.fsencode(target), _NO_REPLACE) == 0:
            return
        reason = ctypes.get_errno()
    if reason in _NO_SUCH_RENAME:
        if not os.path.lexists(target):
            path.replace(target)
            return
        reason = errno.EEXIST
    raise OSError(reason, os.strerror(reason))


def remove_partial(target: Path) -> None:
    """Remove what `keep` has left of a file, unless somebody writes into it."""
    partial = partial_of(target)
    # It is not needed any more; one that cannot be removed harms nobody.
    with suppress(OSError):
        if partial.exists():
            descriptor, _ = open_locked(partial, wait_s=0)
            try:
                partial.unlink()
            finally:
                os.close(descriptor)


def open_alone(partial: Path) -> int:
    """Open it, made if it is not there, when nobody else writes into it any more.

    Raises OSError if somebody does, and does not end; or if it is no regular file of this user with
    one name: a link that others have put there is not written through.
    """
    return open_locked(partial, wait_s=_LOCK_S)[0]


def open_locked(path: Path, *, shared: bool = False, wait_s: float) -> tuple[int, bool]:
    """Open a file, made if it is not there, and lock it; whether the file system knows locks.

    Raises as `open_alone` does.
    """
    until = time.monotonic() + wait_s
    while True:
        descriptor = open_own(path, _MODE)
        knows_locks = True
        try:
            _lock(descriptor, shared=shared)
        except BlockingIOError as error:
            os.close(descriptor)
            if time.monotonic() >= until:
                busy = f"somebody else is writing {path.name}"
                raise BlockingIOError(errno.EWOULDBLOCK, busy) from error
            time.sleep(_LOCK_PAUSE_S)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
            knows_locks = False
        if is_still(path, descriptor):
            return descriptor, knows_locks
        # Its owner has given it its final name, or removed it.
        os.close(descriptor)


def hold(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another holds it or nothing can be locked."""
    try:
        _lock(descriptor, shared=False)
    except OSError:
        return False
    return True


def _lock(descriptor: int, *, shared: bool) -> None:
    """Lock at once; raises `BlockingIOError`, or OSError where there are no locks."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def is_still(partial: Path, descriptor: int) -> bool:
    """Whether it is this file that stands under the name."""
    try:
        there = partial.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
