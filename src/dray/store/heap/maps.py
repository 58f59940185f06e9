"""The maps l0000001.mq and l0000002.mq: which blocks of the p and j files are live (S3-12).

    offset  bytes  field        all numbers little-endian
    0       4      magic        "DMAP"
    4       2      version      1
    6       2      reserved     0
    8       8      generation   of the checkpoint it was written with
    16      4      block        bytes a block has, 512
    20      4      files        how many records follow
    24      8      length       of all records together
    32      4      crc32c       of the records, continued over bytes 0-31
    64      16     end          how far the log was durable, written with each seal (`witness`)
    512     ...    records      file (4 bytes, kind in its two highest bits), length (4 bytes), bits

A bit is set if a byte of its block is live; the first block is the lowest bit of the first byte.
Map and checkpoint alternate together. The map is a second opinion, never the truth: it knows what
the heap held at a checkpoint, with what was placed and not committed yet, so everything the state
names must be in it. Where it is not, one of the two is wrong, and the bytes are looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple

from crc32c import crc32c

from dray.model.words import counted
from dray.store.disk import ReadableDisk, ReadableFile
from dray.store.heap.heap_file import Extent
from dray.store.kinds import file_name
from dray.store.limits import BLOCK_BYTES, SECTOR_BYTES

MAP_NAMES: Final = ("l0000001.mq", "l0000002.mq")
MAGIC: Final = b"DMAP"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<4sHHQIIQ")
_CRC: Final = struct.Struct("<I")
_RECORD: Final = struct.Struct("<II")


class FoundMap(NamedTuple):
    """A map as it was read; `blocks` is None if it is missing, damaged or of another moment."""

    name: str
    blocks: dict[int, bytes] | None


class Disagreement(NamedTuple):
    """A file in which live bytes lie in blocks that its map says are free."""

    map_name: str
    file: int
    blocks: int
    """One bit a block."""

    def __str__(self) -> str:
        """A sentence for the operator."""
        return (
            f"{self.map_name} calls {counted(self.blocks.bit_count(), 'block')} of"
            f" {file_name(self.file)} free, but messages lie there; their checksums were checked"
        )

    def concerns(self, extent: Extent) -> bool:
        """Whether the extent lies in one of the blocks."""
        if extent.file != self.file or not extent.length:
            return False
        first = extent.offset // BLOCK_BYTES
        count = (extent.offset + extent.length - 1) // BLOCK_BYTES - first + 1
        return bool(self.blocks >> first & ((1 << count) - 1))


def map_name(generation: int) -> str:
    """The map that goes with the checkpoint of a generation."""
    return MAP_NAMES[generation % len(MAP_NAMES)]


def encode_map(generation: int, blocks: Mapping[int, bytes]) -> bytearray:
    """The bytes of a map."""
    records = b"".join(
        [_RECORD.pack(file, len(bits)) + bits for file, bits in sorted(blocks.items())]
    )
    image = bytearray(SECTOR_BYTES)
    _HEADER.pack_into(
        image, 0, MAGIC, VERSION, 0, generation, BLOCK_BYTES, len(blocks), len(records)
    )
    crc = crc32c(memoryview(image)[: _HEADER.size], crc32c(records))
    _CRC.pack_into(image, _HEADER.size, crc)
    return image + records


def read_map(disk: ReadableDisk, generation: int) -> FoundMap:
    """Read the map of a generation."""
    name = map_name(generation)
    if not disk.exists(name):
        return FoundMap(name, None)
    with closing(disk.open(name)) as file:
        return FoundMap(name, _decode(file, generation))


def compare(
    name: str, mapped: Mapping[int, bytes], live: Mapping[int, bytes]
) -> list[Disagreement]:
    """The live blocks that are missing from a map."""
    found = []
    for file, bits in sorted(live.items()):
        beyond = int.from_bytes(bits, "little") & ~int.from_bytes(mapped.get(file, b""), "little")
        if beyond:
            found.append(Disagreement(name, file, beyond))
    return found


def _decode(file: ReadableFile, generation: int) -> dict[int, bytes] | None:
    header = bytearray(SECTOR_BYTES)
    file.read_into(memoryview(header), 0)
    magic, version, _, written, block, files, length = _HEADER.unpack_from(header)
    if (magic, version, written, block) != (MAGIC, VERSION, generation, BLOCK_BYTES):
        return None
    if SECTOR_BYTES + length > file.size():
        return None
    records = bytearray(length)
    file.read_into(memoryview(records), SECTOR_BYTES)
    (crc,) = _CRC.unpack_from(header, _HEADER.size)
    if crc != crc32c(memoryview(header)[: _HEADER.size], crc32c(records)):
        return None
    return _records(records, files)


def _records(records: bytearray, files: int) -> dict[int, bytes]:
    found, at = {}, 0
    for _ in range(files):
        file, length = _RECORD.unpack_from(records, at)
        at += _RECORD.size
        found[file] = bytes(records[at : at + length])
        at += length
    return found
