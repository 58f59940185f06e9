"""One group of QMLog as bytes: what one sync makes true, all of it or nothing.

    offset  bytes  field          all numbers little-endian
    0       4      magic          "DQML"
    4       2      version        1
    6       2      flags          1 opening (first group of an epoch), 2 seal (written at rest),
                                  4 copies
    8       8      lsn            byte position of this group in the endless log
    16      8      watermark      everything below this lsn was durable when this was written
    24      8      first fact     number of the first fact, counted from 0 since the store was made
    32      8      capacity       size of QMLog; file offset = lsn modulo capacity
    40      4      epoch          one higher after every recovery
    44      4      facts          how many facts follow
    48      4      extents        how many dirty ranges follow
    52      4      length         of the whole group, without the padding
    56      4      heap file      bytes that each message file is made with
    60      4      crc32c         of bytes 0-59, dirty ranges and facts
    64      12 n   dirty ranges   heap file, from, to: heap bytes not known durable (4 bytes each)
    ...            facts          length (4 bytes), bytes
    ...            copies         with flag 4: the bytes of all dirty ranges, in their order
    ...            padding        zeros to the next sector

The checksum leaves the copies out: each record in them has its own, so damage to a copy is damage
to one message and not to the group.

Magic, version and crc32c never change their places, and a group always begins on a sector, so that
a reader of any age can tell a group of another age from damage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c

from dray.store.limits import SECTOR_BYTES

MAGIC: Final = b"DQML"
VERSION: Final = 1
OPENING: Final = 1
SEAL: Final = 2
COPIES: Final = 4

_HEADER: Final = struct.Struct("<4sHHQQQQIIIIII")
_RANGE: Final = struct.Struct("<III")
_LENGTH: Final = struct.Struct("<I")
_WATERMARK: Final = struct.Struct("<Q")
_WATERMARK_AT: Final = 16
HEADER_BYTES: Final = _HEADER.size
CRC_OFFSET: Final = HEADER_BYTES - 4
length_before: Final[Callable[[int], bytes]] = _LENGTH.pack
"""The bytes before a fact that say how long it is."""


class DirtyRange(NamedTuple):
    """Bytes `start` to `stop` of a heap file."""

    file: int
    start: int
    stop: int


class Group(NamedTuple):
    """The header of a group, as read or to be written."""

    lsn: int
    watermark: int
    first_fact: int
    capacity: int
    epoch: int
    facts: int
    ranges: int
    length: int
    flags: int = 0
    heap_file_bytes: int = 0

    @property
    def end(self) -> int:
        """The offset of the next group."""
        return self.lsn + padded(self.length)


group_of: Final[Callable[[tuple[int, ...]], Group]] = partial(tuple.__new__, Group)
range_of: Final[Callable[[tuple[int, int, int]], DirtyRange]] = partial(tuple.__new__, DirtyRange)
"""Made of their fields without a call of a Python function."""


def padded(length: int) -> int:
    """`length` rounded up to whole sectors."""
    return -(-length // SECTOR_BYTES) * SECTOR_BYTES


def group_bytes(facts_bytes: int, ranges: int, copied: int = 0) -> int:
    """Bytes a group takes in the log, `copied` of them copies of heap bytes."""
    length = HEADER_BYTES + ranges * _RANGE.size + copied + facts_bytes
    return -(-length // SECTOR_BYTES) * SECTOR_BYTES


def encode(
    group: Group, ranges: Sequence[DirtyRange], facts: bytes | bytearray, copies: bytes = b""
) -> bytes:
    """The bytes of `group`, padded; its counts and its length are taken from what it carries.

    `copies` are the bytes of `ranges`, or empty.
    """
    facts_at = HEADER_BYTES + len(ranges) * _RANGE.size
    length = facts_at + len(facts) + len(copies)
    head = bytearray(facts_at)
    _HEADER.pack_into(
        head,
        0,
        MAGIC,
        VERSION,
        group.flags | COPIES if copies else group.flags,
        group.lsn,
        group.watermark,
        group.first_fact,
        group.capacity,
        group.epoch,
        group.facts,
        len(ranges),
        length,
        group.heap_file_bytes,
        0,
    )
    offset = HEADER_BYTES
    for each in ranges:
        _RANGE.pack_into(head, offset, *each)
        offset += _RANGE.size
    _LENGTH.pack_into(head, CRC_OFFSET, crc32c(facts, _checksum(memoryview(head))))
    # Joined and not filled in: a batch's copies are written into fresh memory once.
    return b"".join((head, facts, copies, bytes(-length % SECTOR_BYTES)))


def watermark_at(image: bytearray, at: int) -> int:
    """The watermark in the header that begins at byte `at`."""
    watermark: int = _WATERMARK.unpack_from(image, at + _WATERMARK_AT)[0]
    return watermark


def decode_header(header: bytes | bytearray | memoryview, at: int = 0) -> Group | None:
    """The fields of a header if they agree with each other; the checksum is not checked.

    It begins at byte `at`.
    """
    (
        magic,
        version,
        flags,
        lsn,
        watermark,
        first_fact,
        capacity,
        epoch,
        facts,
        ranges,
        length,
        heap_file_bytes,
        _crc,
    ) = _HEADER.unpack_from(header, at)
    if magic != MAGIC or version != VERSION or watermark > lsn:
        return None
    if not HEADER_BYTES + ranges * _RANGE.size <= length <= capacity:
        return None
    return Group(
        lsn, watermark, first_fact, capacity, epoch, facts, ranges, length, flags, heap_file_bytes
    )


def intact(group: Group, image: bytearray) -> bool:
    """Whether the checksum of a whole group (without padding) fits; it says nothing of copies."""
    (crc,) = _LENGTH.unpack_from(image, CRC_OFFSET)
    covered = memoryview(image)[: len(image) - _copied_bytes(group, image)]
    return bool(crc == _checksum(covered))


def ranges_of(group: Group, image: bytearray) -> list[DirtyRange]:
    """The dirty ranges in the bytes of an intact group."""
    stop = HEADER_BYTES + group.ranges * _RANGE.size
    return [DirtyRange(*each) for each in _RANGE.iter_unpack(memoryview(image)[HEADER_BYTES:stop])]


def copies_of(group: Group, image: bytearray) -> Iterator[tuple[DirtyRange, int]]:
    """The dirty ranges that an intact group has copies of, each with the copy's byte in it."""
    if group.flags & COPIES:
        offset = group.length - _copied_bytes(group, image)
        for each in ranges_of(group, image):
            yield each, offset
            offset += each.stop - each.start


def facts_of(group: Group, image: bytearray) -> Iterator[bytes]:
    """The facts in the bytes of an intact group, in order."""
    offset = HEADER_BYTES + group.ranges * _RANGE.size
    for _ in range(group.facts):
        (length,) = _LENGTH.unpack_from(image, offset)
        offset += _LENGTH.size
        yield bytes(memoryview(image)[offset : offset + length])
        offset += length


def _copied_bytes(group: Group, image: bytearray) -> int:
    if not group.flags & COPIES:
        return 0
    return sum(each.stop - each.start for each in ranges_of(group, image))


def _checksum(image: memoryview) -> int:
    return crc32c(image[HEADER_BYTES:], crc32c(image[:CRC_OFFSET]))
