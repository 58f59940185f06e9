"""The durable end of the log, noted outside of the log: in `lock` and in the maps.

    offset  bytes  field    the same in each of these files, all numbers little-endian
    64      4      magic    "DEND"
    68      4      crc32c   of the lsn
    72      8      lsn      the log was durable up to here when this was written

The log cannot vouch for its own end: a damaged newest group looks like one whose write never
finished, and an older log that was put back is whole. So each sync that has ended is noted in
`lock`, before anybody is told; a seal is noted in the newest map too, for a copy without `lock`.
None of these writes is synced: a killed process leaves them to the next one, and a power failure
may take the newest, which weakens what is vouched for and never makes it wrong. A note claims only
what was durable before it was written.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import Final, NamedTuple

from crc32c import crc32c

from dray.errors import StoreCorrupt, StoreFull
from dray.store.disk import LOCK_NAME, Disk, File, ReadableDisk
from dray.store.heap.maps import MAP_NAMES

END_AT: Final = 64
_MAGIC: Final = b"DEND"
_END: Final = struct.Struct("<4sIQ")
_LSN: Final = struct.Struct("<Q")


class NotedEnd(NamedTuple):
    """The file that vouches for most of the log, and up to which lsn; 0 if none does."""

    file: str
    lsn: int


def note_end(file: File, lsn: int) -> None:
    """Write that the log is durable up to `lsn`. A disk too full for it does without."""
    try:
        file.write(_END.pack(_MAGIC, crc32c(_LSN.pack(lsn)), lsn), END_AT)
    except StoreFull:
        # The former note stays, which vouches for less.
        return


def read_end(disk: ReadableDisk) -> NotedEnd:
    """The note that vouches for most."""
    names = [name for name in (LOCK_NAME, *MAP_NAMES) if disk.exists(name)]
    found = [NotedEnd(name, _end_in(disk, name)) for name in names]
    return max(found, key=lambda each: each.lsn, default=NotedEnd("", 0))


def forget_end(disk: Disk, name: str) -> None:
    """Durably take back what a file says of a former store. Raises StoreFull, StorePoisoned."""
    if disk.exists(name) and _end_in(disk, name):
        with closing(disk.open(name)) as file:
            file.write(bytes(_END.size), END_AT)
            file.sync()


def _end_in(disk: ReadableDisk, name: str) -> int:
    image = bytearray(_END.size)
    file = disk.open(name)
    try:
        got = file.read_into(memoryview(image), END_AT)
    except StoreCorrupt:
        # A sector that cannot be read is no witness, and no start needs one.
        return 0
    finally:
        file.close()
    magic, crc, lsn = _END.unpack(image)
    whole = got == len(image) and magic == _MAGIC and crc == crc32c(_LSN.pack(lsn))
    return int(lsn) if whole else 0
