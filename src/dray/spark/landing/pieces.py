"""One large message by several tasks: each writes a piece of whole fragments into one file.

    task          fragments, each checked by its CRC32C -> their place in .<name>.<attempt>.partial,
                  synced -> a marker, .<name>.<attempt>.<piece>.partial
    the last one  the digest over the whole, read from the file -> rename -> the markers go

The first piece is the longest, and its task takes the digest as it writes. If it ends last, as it
mostly does, it reads only the other pieces.
Tasks tell by the markers who is last, one at a time under a lock of the file. A piece that is
written twice, by a task that Spark tries again or runs on two machines, is the same bytes in the
same place. `attempt` is drawn for each micro-batch: what is left of a killed driver's executors
writes into a file that nobody looks at.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dray.large.digests import DIGESTS, Digest
from dray.spark.failure import disk_told
from dray.spark.landing.payload import PARTIAL_SUFFIX, Expected, Placement, file_digest

_MODE = 0o666


class Piece(NamedTuple):
    """The piece of a message that a task has, from 1 to `total`."""

    number: int
    total: int

    def of(self, whole: int) -> tuple[int, int]:
        """The first and the last of so many fragments, counted from 1, that it has."""
        return self._end(self.number - 1, whole) + 1, self._end(self.number, whole)

    def _end(self, number: int, whole: int) -> int:
        """The last fragment of a piece: the first piece is longer than the others by a quarter."""
        return (4 * number + 1) * whole // (4 * self.total + 1) if number else 0


class PieceTarget:
    """The file that a piece is written to; with a `digest`, it takes in the bytes from 0 on."""

    def __init__(self, descriptor: int, digest: Digest | None = None) -> None:
        """Write into an open file, at places of one's own."""
        self._descriptor = descriptor
        self.digest = digest
        self.digested = 0
        """The bytes from the beginning of the file that the digest has taken in."""

    def write_at(self, offset: int, data: memoryview) -> None:
        """Write all of `data` at `offset`."""
        if self.digest is not None and offset == self.digested:
            self.digest.update(data)
            self.digested += len(data)
        while data:
            count = os.pwrite(self._descriptor, data, offset)
            data, offset = data[count:], offset + count


class PiecePlacement:
    """One piece of a payload on its way into the file of the whole."""

    def __init__(self, path: Path, expected: Expected, piece: Piece, attempt: str) -> None:
        """Take the place of the whole, and what is to stand there."""
        self._whole = Placement(path, expected)
        self._path = path
        self._expected = expected
        self._piece = piece
        self._stem = f".{path.name}.{attempt}"
        self._partial = path.with_name(f"{self._stem}{PARTIAL_SUFFIX}")

    def is_done(self) -> bool:
        """Whether the very payload is in its place already."""
        return self._whole.is_done()

    def fill(self, pull: Callable[[PieceTarget], None]) -> bool:
        """Let `pull` write the piece; put the payload in place if it was the last one.

        Gives whether the payload is in place. Raises as `Placement.fill` does; a payload with the
        wrong digest leaves nothing.
        """
        with disk_told(self._path):
            descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - of a descriptor
                is_first = self._piece.number == 1
                target = PieceTarget(
                    descriptor, DIGESTS[self._expected.kind]() if is_first else None
                )
                pull(target)
                os.fsync(descriptor)
                # One task at a time; the kernel lets go of the lock when the file is closed.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                return self._put_together(file, target)

    def _put_together(self, file: BinaryIO, target: PieceTarget) -> bool:
        if self._path.exists() and self._whole.is_done():
            # Another run of this task was the last one.
            self._remove()
            return True
        self._marker(self._piece.number).touch()
        count = self._piece.total
        if not all(self._marker(number).exists() for number in range(1, count + 1)):
            return False
        size = os.fstat(file.fileno()).st_size
        try:
            file.seek(target.digested)
            digest = file_digest(file, self._expected.kind, target.digest)
            self._expected.check(self._path.name, digest, size)
        except BaseException:
            self._remove()
            raise
        self._partial.replace(self._path)
        self._remove()
        return True

    def _marker(self, number: int) -> Path:
        return self._path.with_name(f"{self._stem}.{number}{PARTIAL_SUFFIX}")

    def _remove(self) -> None:
        self._partial.unlink(missing_ok=True)
        for number in range(1, self._piece.total + 1):
            self._marker(number).unlink(missing_ok=True)
