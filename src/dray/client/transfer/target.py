"""The file that is received: grows as `<path>.partial`, and is there whole or not at all.

While it grows it is locked (`partial_file`), so that two who save under one name do not write into
each other's file: the digest of the one would say nothing of what appears under the name.

Two threads follow the writes. One takes the digest from the file itself: what is checked is what
would be read. The other syncs what was written, so that the disk is busy from the start, the last
sync finds little left to do, and little is lost with the machine.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from dray.client.files.partial_file import is_in_the_way, is_still, open_alone
from dray.client.transfer.reference import Fingerprint
from dray.errors import TargetUnwritable
from dray.forks import keep_from_children
from dray.fsync import sync_folder
from dray.large.digests import DIGESTS, Digest, hashed_file
from dray.model.limits import MIB
from dray.transfer.events import Terms

SYNC_EVERY_BYTES = 32 * MIB
"""As much as a disk writes in the time that a sync takes to be asked for and answered, and more."""
NOTE_EVERY_BYTES = 256 * MIB
"""To note what is synced costs two syncs of its own."""
_READ_BYTES = 4 * MIB
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PARTIAL = ".partial"


def boot_id() -> str:
    """Which start of this machine it is; empty if that cannot be told."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def partial_of(target: Path) -> Path:
    """Where a file grows."""
    return target.with_name(target.name + PARTIAL)


def whole_fragments(target: Path, terms: Terms, synced: int, boot: str) -> int:
    """How many fragments of a partial file can be relied on.

    Its length while the machine runs on; what was synced if it was started anew in between.
    """
    try:
        length = partial_of(target).stat().st_size
    except OSError:
        return 0
    whole = length >= terms.size
    there = terms.fragment_count if whole else length // terms.fragment_size
    return there if boot and boot == boot_id() else min(there, synced)


def is_there(target: Path, terms: Terms, wanted: Fingerprint) -> bool:
    """Whether a file is under its name already: a kill came between the rename and its note."""
    try:
        if partial_of(target).exists() or target.stat().st_size != terms.size:
            return False
        with target.open("rb", buffering=0) as file:
            found = hashed_file(file, wanted.kind)
    except OSError:
        return False
    return wanted == Fingerprint(wanted.kind, found.digest())


class TargetFile:
    """Grows fragment by fragment. Its methods raise `TargetUnwritable`."""

    def __init__(
        self,
        target: Path,
        terms: Terms,
        kind: str,
        *,
        expected: int,
        more_synced: Callable[[], object],
    ) -> None:
        """Go on behind `expected` fragments.

        `more_synced` is called by a thread when it is worth noting how much `synced` is.
        """
        self.target = target
        self._partial = partial_of(target)
        self._terms = terms
        self._more_synced = more_synced
        self._kind = kind
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._much_written = threading.Condition(lock)
        self._using = threading.Lock()
        self._written = terms.bytes_before(expected)
        self._hash = DIGESTS[kind]()
        self._hashed = self._synced = self._noted = 0
        self._closing = self._finishing = False
        self._idle = True
        """Whether the thread of the digest waits for more to be written."""
        self._failure: OSError | None = None
        try:
            if is_in_the_way(target):
                raise OSError(errno.EEXIST, "it is no regular file")
            self._descriptor = open_alone(self._partial)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            os.ftruncate(self._descriptor, self._written)
        except OSError as error:
            os.close(self._descriptor)
            raise self._unwritable(error) from error
        keep_from_children(self)
        self._reader = threading.Thread(target=self._follow, name="dray-digest", daemon=True)
        self._syncer = threading.Thread(target=self._sync_behind, name="dray-sync", daemon=True)
        self._reader.start()
        self._syncer.start()

    def fileno(self) -> int:
        """Its descriptor; below 0 once it is closed."""
        return self._descriptor

    @property
    def synced(self) -> int:
        """Fragments that are on the disk, from the first one on."""
        with self._changed:
            return self._synced // self._terms.fragment_size

    def write(self, number: int, piece: memoryview) -> None:
        """Write a fragment behind those that are there."""
        offset = self._terms.bytes_before(number)
        try:
            while piece:
                count = os.pwrite(self._descriptor, piece, offset)
                offset, piece = offset + count, piece[count:]
        except OSError as error:
            raise self._unwritable(error) from error
        with self._changed:
            self._written = offset
            if self._idle:
                self._changed.notify_all()
            if offset - self._synced >= SYNC_EVERY_BYTES:
                self._much_written.notify()

    def start_over(self) -> None:
        """Drop everything."""
        with self._changed:
            self._written = self._hashed = self._synced = self._noted = 0
            self._hash = DIGESTS[self._kind]()
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise self._unwritable(error) from error

    def digest(self) -> Fingerprint:
        """The digest of all that is in the file, once the thread has come so far."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or self._closing or self._hashed >= self._written
            )
            self._raise_failure()
            return Fingerprint(self._kind, self._hash.digest())

    def finish(self) -> None:
        """Make it durable under its own name, unless it is closed already."""
        with self._changed:
            self._finishing = True
            self._much_written.notify()
        # The kernel tells of a failed write once, so nobody else may be asking when we do.
        self._syncer.join()
        with self._changed:
            self._raise_failure()
        with self._using:
            if self._descriptor >= 0:
                self._publish()

    def close(self) -> None:
        """Let go of it; what is there stays. Harmless when repeated."""
        self._close(remove=False)

    def discard(self) -> None:
        """Let go of it, and remove what there is of it."""
        self._close(remove=True)

    def _close(self, *, remove: bool) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._much_written.notify()
        self._reader.join()
        self._syncer.join()
        with self._using:
            if self._descriptor >= 0:
                # Under the lock: once it is let go of, another's may stand under that name.
                if remove and is_still(self._partial, self._descriptor):
                    self._partial.unlink()
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)

    def _publish(self) -> None:
        try:
            os.fsync(self._descriptor)
            self._partial.replace(self.target)
            sync_folder(self.target.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    # ------------------------------------------------------------------- the thread that reads

    def _follow(self) -> None:
        room = memoryview(bytearray(_READ_BYTES))
        try:
            while (found := self._more()) is not None:
                digest, at, wanted = found
                count = os.preadv(self._descriptor, [room[: min(wanted, len(room))]], at)
                self._take(digest, room[:count])
        except OSError as error:
            self._failed(error)

    def _more(self) -> tuple[Digest, int, int] | None:
        """The next bytes to hash, and their digest; None at the end."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._closing or self._hashed < self._written)
            self._idle = False
            if self._closing:
                return None
            return self._hash, self._hashed, self._written - self._hashed

    def _take(self, digest: Digest, piece: memoryview) -> None:
        digest.update(piece)
        with self._changed:
            if digest is not self._hash:
                # Everything was dropped meanwhile.
                return
            if not piece:
                raise OSError(errno.EIO, "it became shorter while it was written")
            self._hashed += len(piece)
            if self._hashed >= self._written:
                self._changed.notify_all()

    # ------------------------------------------------------------------- the thread that syncs

    def _sync_behind(self) -> None:
        try:
            while (found := self._unsynced()) is not None:
                os.fdatasync(self._descriptor)
                self._note(*found)
        except OSError as error:
            self._failed(error)

    def _unsynced(self) -> tuple[Digest, int] | None:
        """Up to where to sync, and of which digest; None at the end."""
        with self._changed:
            self._much_written.wait_for(
                lambda: (
                    self._closing
                    or self._finishing
                    or self._written - self._synced >= SYNC_EVERY_BYTES
                )
            )
            if self._closing or self._finishing:
                return None
            return self._hash, self._written

    def _note(self, digest: Digest, upto: int) -> None:
        with self._changed:
            if digest is not self._hash:
                # Everything was dropped meanwhile.
                return
            self._synced = upto
            if upto - self._noted < NOTE_EVERY_BYTES:
                return
            self._noted = upto
        self._more_synced()

    # -------------------------------------------------------------------------- what goes wrong

    def _failed(self, error: OSError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._unwritable(self._failure)

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return TargetUnwritable(
            f"{self.target} cannot be written: {error.strerror or error}; the received data is"
            " kept, so free space and resume the transfer",
            path=str(self.target),
        )
