"""The file that is received: grows as `<path>.partial`, and is there whole or not at all.

`PartialFile` keeps others out of it and syncs it while it grows, so that little is lost with the
machine. A thread follows the writes and takes the digest from the file itself: what is checked is
what would be read.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dray.client.files.file_identity import FileIdentity
from dray.client.files.partial_file import PartialFile, partial_of
from dray.client.transfer.reference import Fingerprint
from dray.errors import TargetUnwritable
from dray.large.digests import DIGESTS, Digest, hashed_file
from dray.model.limits import MIB
from dray.transfer.events import Terms

NOTE_EVERY_BYTES = 256 * MIB
"""To note what is synced costs two syncs of its own."""
_READ_BYTES = 4 * MIB
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ADVICE = "the received data is kept, so free space and resume the transfer"


def boot_id() -> str:
    """The id of this start of the machine; empty if that cannot be told."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def whole_fragments(target: Path, terms: Terms, synced: int, boot: str) -> int:
    """The number of fragments of a partial file that can be relied on.

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
        self._terms = terms
        self._more_synced = more_synced
        self._kind = kind
        self._changed = threading.Condition()
        self._using = threading.Lock()
        self._written = terms.bytes_before(expected)
        self._hash = DIGESTS[kind]()
        self._hashed = self._synced = self._noted = 0
        self._closing = False
        self._idle = True
        """Whether the thread of the digest waits for more to be written."""
        self._failure: OSError | None = None
        self._path, self._stood_there = target, _identity(target)
        self._file = PartialFile(target, resume=True, advice=_ADVICE)
        try:
            self._file.cut(self._written)
        except BaseException:
            self._file.keep()
            raise
        self._reader = threading.Thread(target=self._follow, name="dray-digest", daemon=True)
        self._reader.start()

    @property
    def synced(self) -> int:
        """Fragments that are on the disk, from the first one on."""
        with self._changed:
            return self._synced // self._terms.fragment_size

    def write(self, number: int, piece: memoryview) -> None:
        """Write a fragment behind those that are there."""
        offset = self._terms.bytes_before(number)
        self._file.put(piece, offset)
        with self._changed:
            self._written = offset + len(piece)
            if self._idle:
                self._changed.notify_all()
            note = partial(self._note, self._hash, self._written)
        self._file.grown(len(piece), note)

    def start_over(self) -> None:
        """Drop everything."""
        with self._changed:
            self._written = self._hashed = self._synced = self._noted = 0
            self._hash = DIGESTS[self._kind]()
        self._file.cut(0)

    def digest(self) -> Fingerprint:
        """The digest of all that is in the file, once the thread has come so far."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or self._closing or self._hashed >= self._written
            )
            if self._failure is not None:
                reason = self._failure.strerror or str(self._failure)
                raise self._file.spoilt(reason) from self._failure
            return Fingerprint(self._kind, self._hash.digest())

    def finish(self) -> None:
        """Make it durable under its own name, unless it is closed already.

        It replaces only the file that stood there when it was begun: the caller knew that one.
        """
        with self._using:
            if self._file.fileno() >= 0:
                self._end_following()
                there = _identity(self._path)
                if there not in (None, self._stood_there):
                    raise self._not_replaced()
                try:
                    self._file.finish(replace=there is not None)
                except TargetUnwritable as error:
                    if isinstance(error.__cause__, FileExistsError):
                        raise self._not_replaced() from error
                    raise

    def close(self) -> None:
        """Let go of it; what is there stays. Harmless when repeated."""
        self._end_following()
        with self._using:
            self._file.keep()

    def discard(self) -> None:
        """Let go of it, and remove what there is of it."""
        self._end_following()
        with self._using:
            self._file.discard()

    def _not_replaced(self) -> TargetUnwritable:
        return TargetUnwritable(
            f"{self._path} is not replaced: it was made or changed while the transfer ran; the"
            " received data is kept, so move that file away and resume the transfer",
            path=str(self._path),
        )

    def _end_following(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._reader.join()

    def _follow(self) -> None:
        room = memoryview(bytearray(_READ_BYTES))
        try:
            while (found := self._more()) is not None:
                digest, at, wanted = found
                count = os.preadv(self._file.descriptor, [room[: min(wanted, len(room))]], at)
                self._take(digest, room[:count])
        except OSError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

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

    def _note(self, digest: Digest, upto: int) -> None:
        """In the thread that syncs: what was written up to there is on disk."""
        with self._changed:
            if digest is not self._hash:
                # Everything was dropped meanwhile.
                return
            self._synced = upto
            if upto - self._noted < NOTE_EVERY_BYTES:
                return
            self._noted = upto
        self._more_synced()


def _identity(path: Path) -> FileIdentity | None:
    """The identity of the file that stands under a name; None if there is none."""
    try:
        return FileIdentity.of(path.stat(follow_symlinks=False))
    except OSError:
        return None
