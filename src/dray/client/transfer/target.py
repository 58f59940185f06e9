"""The file that is received: grows as `<path>.partial`, and is there whole or not at all.

The digest is taken from the file itself, by a thread that follows the writes: what is checked is
what would be read. The thread also syncs now and then, so that little is lost with the machine.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dray.errors import TargetUnwritable
from dray.large.digests import DIGESTS, Digest
from dray.model.limits import MIB
from dray.transfer.events import Terms

SYNC_EVERY_BYTES = 256 * MIB
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


def is_there(target: Path, terms: Terms, digest: str) -> bool:
    """Whether a file is under its name already: a kill came between the rename and its note."""
    kind = digest.partition(":")[0]
    hash_ = DIGESTS[kind]()
    try:
        if partial_of(target).exists() or target.stat().st_size != terms.size:
            return False
        with target.open("rb", buffering=0) as file:
            while piece := file.read(_READ_BYTES):
                hash_.update(piece)
    except OSError:
        return False
    return digest == f"{kind}:{hash_.hexdigest()}"


class TargetFile:
    """Grows fragment by fragment. Its methods raise `TargetUnwritable`."""

    def __init__(
        self, target: Path, terms: Terms, kind: str, *, expected: int, synced: Callable[[int], None]
    ) -> None:
        """Go on behind `expected` fragments; `synced` is called with fragments, by a thread."""
        self.target = target
        self._partial = partial_of(target)
        self._terms = terms
        self._synced = synced
        self._kind = kind
        self._changed = threading.Condition()
        self._using = threading.Lock()
        self._written = terms.bytes_before(expected)
        self._hash = DIGESTS[kind]()
        self._hashed = 0
        self._closing = False
        self._idle = True
        """Whether the thread waits for more to be written."""
        self._failure: OSError | None = None
        try:
            self._descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.ftruncate(self._descriptor, self._written)
        except OSError as error:
            raise self._unwritable(error) from error
        self._thread = threading.Thread(target=self._follow, name="dray-digest", daemon=True)
        self._thread.start()

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

    def start_over(self) -> None:
        """Drop everything."""
        with self._changed:
            self._written = self._hashed = 0
            self._hash = DIGESTS[self._kind]()
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise self._unwritable(error) from error

    def digest(self) -> str:
        """The digest of all that is in the file, once the thread has come so far."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or self._closing or self._hashed >= self._written
            )
            if self._failure is not None:
                raise self._unwritable(self._failure)
            return f"{self._kind}:{self._hash.hexdigest()}"

    def finish(self) -> None:
        """Make it durable under its own name, unless it is closed already."""
        with self._using:
            if self._descriptor >= 0:
                self._publish()

    def close(self) -> None:
        """Let go of it; what is there stays. Harmless when repeated."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        with self._using:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def discard(self) -> None:
        """Remove what there is of it."""
        self.close()
        with suppress(FileNotFoundError):
            self._partial.unlink()

    def _publish(self) -> None:
        try:
            os.fsync(self._descriptor)
            self._partial.replace(self.target)
            directory = os.open(self.target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise self._unwritable(error) from error

    def _follow(self) -> None:
        room = memoryview(bytearray(_READ_BYTES))
        synced = 0
        try:
            while (found := self._more()) is not None:
                digest, at, wanted = found
                count = os.preadv(self._descriptor, [room[: min(wanted, len(room))]], at)
                self._take(digest, room[:count])
                if self._hashed - synced >= SYNC_EVERY_BYTES or self._hashed < synced:
                    synced = self._hashed
                    os.fdatasync(self._descriptor)
                    self._synced(synced // self._terms.fragment_size)
        except OSError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _more(self) -> tuple[Digest, int, int] | None:
        """What is to be taken in next, and by which digest; None at the end."""
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

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return TargetUnwritable(
            f"{self.target} cannot be written: {error.strerror or error}; what came is kept, free"
            " room and resume the transfer",
            path=str(self.target),
        )
