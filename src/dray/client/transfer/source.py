"""The file that is offered: read once before it is offered, and watched from then on."""

from __future__ import annotations

import os
import stat
from array import array
from pathlib import Path
from typing import Self

from dray.checksum import crc32c
from dray.client.files.file_identity import FileIdentity
from dray.client.files.sources import has_its_size, unreadable
from dray.client.transfer.reference import Fingerprint
from dray.errors import SourceUnreadable, TransferSourceChanged
from dray.large.digests import DIGESTS

_READ_BYTES = 1 << 20


class SourceFile:
    """One file, open for reading. Any thread may read from it."""

    def __init__(self, path: Path) -> None:
        """Open it; raises `SourceUnreadable`."""
        self.path = path
        self.crcs = array("I")
        """The CRC32C of each fragment, once `scan` has read them."""
        try:
            # Not opened: that would wait for whoever writes into a pipe, and then hang up on him.
            if not stat.S_ISREG(path.stat().st_mode):
                raise _not_regular(path)
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise unreadable(str(path), error) from error
        found = os.fstat(self._file.fileno())
        if not has_its_size(self._file.fileno(), found):
            self._file.close()
            raise _not_regular(path)
        self.identity = FileIdentity.of(found)

    @property
    def descriptor(self) -> int:
        """For reading at a place."""
        return self._file.fileno()

    def scan(self, fragment_size: int, kind: str) -> Fingerprint:
        """Read it all: give its digest, keep each fragment's CRC32C. Raises `SourceUnreadable`."""
        digest, crcs = DIGESTS[kind](), array("I")
        crc, in_fragment = 0, 0
        room = memoryview(bytearray(_READ_BYTES))
        at = 0
        while at < self.identity.size:
            wanted = min(len(room), fragment_size - in_fragment, self.identity.size - at)
            count = self._read(room[:wanted], at)
            digest.update(room[:count])
            crc = crc32c(room[:count], crc)
            at, in_fragment = at + count, in_fragment + count
            if in_fragment == fragment_size or at == self.identity.size:
                crcs.append(crc)
                crc = in_fragment = 0
            if not count:
                break
        self.crcs = crcs
        return Fingerprint(kind, digest.digest())

    def has_moved_on(self) -> bool:
        """Whether the open file is no longer what it was; cheap enough for each fragment."""
        found = FileIdentity.of(os.fstat(self.descriptor))
        return found != self.identity

    def check(self, transfer_id: str, fragment_size: int, then: Fingerprint) -> None:
        """Read it anew by its name; raises `TransferSourceChanged` if anything is different."""
        with SourceFile(self.path) as now:
            same = now.identity == self.identity and now.scan(fragment_size, then.kind) == then
        if not same:
            raise changed(self.path, transfer_id)

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, room: memoryview, offset: int) -> int:
        try:
            return os.preadv(self.descriptor, [room], offset)
        except OSError as error:
            raise unreadable(str(self.path), error) from error


def _not_regular(path: Path) -> SourceUnreadable:
    return SourceUnreadable(
        f"{path} is not a regular file, so its size and digest cannot be known in advance; offer a"
        " regular file, or send what a pipe says as a large message",
        path=str(path),
    )


def changed(path: Path, transfer_id: str) -> TransferSourceChanged:
    """Say that a file is not what was offered."""
    return TransferSourceChanged(
        f"{path} changed after it was offered as file transfer {transfer_id}; that offer is over,"
        " so offer the file again",
        path=str(path),
        transfer_id=transfer_id,
    )
