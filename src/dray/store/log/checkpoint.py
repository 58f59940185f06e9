"""The two alternating checkpoint pairs, MQTrans and MQInSeqs, .lg1 and .lg2 each (S3-14).

    offset  bytes  field        all numbers little-endian
    0       4      magic        "DCKP" in MQTrans, "DSEQ" in MQInSeqs
    4       2      version      1
    6       2      reserved     0
    8       8      generation   1, 2, 3...; the same in both pairs for what belongs together;
                                0 in a file that was made and into which none was written yet
    16      8      lsn          replay the log from here
    24      8      facts        facts contained in the snapshot, counted since the store was made
    32      8      capacity     size of QMLog
    40      8      length       of the snapshot
    48      4      epoch        epoch of the log when it was written
    52      4      waiting      facts of the snapshot that no group held yet
    56      4      crc32c       of the snapshot, continued over bytes 0-55 and 60-511
    60      4      reserved     0
    64      8      size         of the file when this was written
    72      440    reserved     0
    512     length snapshot     opaque; whatever its owner gave

The snapshot is written first and the header last, in one sector, after the log and the heap files
it speaks of were synced. So a header that fits its snapshot proves the whole, and until then the
other file of the pair is whole. Before the snapshot, a header of generation 0 with one waiting fact
takes the place of that of the older checkpoint: a kill leaves such a file, and it is not damaged.
A file is made with a header too, of generation 0, before the log has its first group: so one
without any header is no file that was never written, but a damaged one.

MQInSeqs has how far each incoming stream was accepted and what its source is still to be told,
MQTrans everything else. Both are written at every checkpoint and say from which fact on the log is
to be replayed for their half, so either file of one pair goes with either file of the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import closing
from enum import Enum
from typing import Final, NamedTuple

from crc32c import crc32c

from dray.store.disk import File, ReadableDisk, ReadableFile
from dray.store.limits import CHECKPOINT_BUFFER_BYTES, CHECKPOINT_BYTES, SECTOR_BYTES

TRANSACTIONS: Final = ("MQTrans.lg1", "MQTrans.lg2")
SEQUENCES: Final = ("MQInSeqs.lg1", "MQInSeqs.lg2")
PAIRS: Final = (TRANSACTIONS, SEQUENCES)
NAMES: Final = (*TRANSACTIONS, *SEQUENCES)
_MAGICS: Final = {**dict.fromkeys(TRANSACTIONS, b"DCKP"), **dict.fromkeys(SEQUENCES, b"DSEQ")}
VERSION: Final = 1
_HEADER: Final = struct.Struct("<4sHHQQQQQIIIIQ")
_CRC_OFFSET: Final = 56
_CRC: Final = struct.Struct("<I")
_COVERED_FROM: Final = _CRC_OFFSET + _CRC.size
_LENGTH: Final = struct.Struct("<Q")


class Snapshots(NamedTuple):
    """The owner's state of one moment in its two halves, each in pieces."""

    state: Iterable[bytes]
    sequences: Iterable[bytes] = ()

    def joined(self) -> list[bytes]:
        """Both in one image, for a backup."""
        sequences = b"".join(self.sequences)
        return [_LENGTH.pack(len(sequences)), sequences, *self.state]

    @classmethod
    def parted(cls, image: bytes) -> Snapshots:
        """Split what `joined` made one. Raises ValueError if it cannot be."""
        if len(image) < _LENGTH.size:
            raise ValueError("it is too short")
        stop = _LENGTH.size + _LENGTH.unpack_from(image)[0]
        if stop > len(image):
            raise ValueError("it is cut off")
        return cls([image[stop:]], [image[_LENGTH.size : stop]])


class CheckpointState(Enum):
    """State of one file of the pair."""

    ABSENT = "absent, or without a header"
    UNUSED = "made, and nothing was written into it yet"
    VALID = "valid"
    UNFINISHED = "a newer checkpoint was being written into it"
    DAMAGED = "damaged"


class Mark(NamedTuple):
    """The fields of a checkpoint header."""

    name: str
    generation: int
    lsn: int
    facts: int
    capacity: int
    length: int
    epoch: int
    waiting: int
    size: int = 0
    """Bytes of the file; `SnapshotWriter.finish` fills it in."""


ORIGIN: Final = Mark("", generation=0, lsn=0, facts=0, capacity=0, length=0, epoch=0, waiting=0)
"""The checkpoint that every store has: nothing, before the first group."""


class SnapshotWriter:
    """Writes one snapshot into a checkpoint file; valid only after `finish` and a sync."""

    def __init__(self, file: File) -> None:
        """Overwrite `file`, which must not be the newest checkpoint."""
        self.file = file
        self._length = 0
        self._crc = 0

    def write(self, snapshot: Iterable[bytes]) -> None:
        """Write the pieces one after the other. Raises StoreFull, StorePoisoned."""
        self._begin()
        buffer = bytearray()
        for piece in snapshot:
            buffer += piece
            if len(buffer) >= CHECKPOINT_BUFFER_BYTES:
                self._flush(buffer)
                buffer = bytearray()
        self._flush(buffer)

    def finish(self, mark: Mark) -> Mark:
        """Write the header that makes it a checkpoint; give `mark` with its lengths filled in."""
        # The snapshot is in the file already; the header may lengthen an empty one.
        size = max(self.file.size(), SECTOR_BYTES)
        mark = mark._replace(length=self._length, size=size)
        self.file.write(_header(self.file.name, mark, self._crc), 0)
        return mark

    def _begin(self) -> None:
        """Replace the header of an older checkpoint, whose snapshot is going to be overwritten."""
        header = _first_sector(self.file)
        if not _is_unwritten(self.file.name, header):
            self.file.write(unfinished_mark(self.file.name), 0)

    def _flush(self, buffer: bytearray) -> None:
        if buffer:
            self.file.write(buffer, SECTOR_BYTES + self._length)
            self._length += len(buffer)
            self._crc = crc32c(buffer, self._crc)


def birth_mark(name: str) -> bytes:
    """The first sector of a checkpoint file of that name into which nothing was written yet."""
    return bytes(_header(name, ORIGIN._replace(size=CHECKPOINT_BYTES), crc=0))


def unfinished_mark(name: str) -> bytes:
    """The first sector of one whose older checkpoint is being overwritten by a newer one."""
    return bytes(_header(name, ORIGIN._replace(waiting=1, size=CHECKPOINT_BYTES), crc=0))


def examine(disk: ReadableDisk, name: str) -> tuple[CheckpointState, Mark | None]:
    """Read and check one file of the pair.

    One that a crash left without its header, or with a part of the one it is made with, is absent.
    """
    if not disk.exists(name):
        return CheckpointState.ABSENT, None
    with closing(disk.open(name)) as file:
        header = _first_sector(file)
        if header == birth_mark(name):
            return CheckpointState.UNUSED, None
        if _is_unwritten(name, header):
            return CheckpointState.ABSENT, None
        if header == unfinished_mark(name):
            return CheckpointState.UNFINISHED, None
        mark = _valid_mark(file, header)
    return (CheckpointState.DAMAGED if mark is None else CheckpointState.VALID), mark


def _first_sector(file: ReadableFile) -> bytearray:
    header = bytearray(SECTOR_BYTES)
    file.read_into(memoryview(header), 0)
    return header


def _is_unwritten(name: str, header: bytearray) -> bool:
    """Whether a first sector is that of a birth, or of one that a crash left unfinished."""
    return birth_mark(name).startswith(header.rstrip(b"\0"))


def is_cut(disk: ReadableDisk, name: str, mark: Mark | None) -> bool:
    """Whether a file of the pair is shorter than it was made, or than its header says."""
    made = CHECKPOINT_BYTES if mark is None else max(CHECKPOINT_BYTES, mark.size)
    with closing(disk.open(name)) as file:
        return file.size() < made


def read_snapshot(disk: ReadableDisk, mark: Mark) -> bytes:
    """The snapshot of a checkpoint that was examined before."""
    with closing(disk.open(mark.name)) as file:
        snapshot = bytearray(mark.length)
        file.read_into(memoryview(snapshot), SECTOR_BYTES)
    return bytes(snapshot)


def _header(name: str, mark: Mark, crc: int) -> bytearray:
    """The first sector; `crc` is the snapshot's."""
    image = bytearray(SECTOR_BYTES)
    _HEADER.pack_into(
        image,
        0,
        _MAGICS[name],
        VERSION,
        0,
        mark.generation,
        mark.lsn,
        mark.facts,
        mark.capacity,
        mark.length,
        mark.epoch,
        mark.waiting,
        0,
        0,
        mark.size,
    )
    _CRC.pack_into(image, _CRC_OFFSET, _header_crc(image, crc))
    return image


def _header_crc(image: bytearray, crc: int) -> int:
    """The checksum of a header, continued from that of its snapshot."""
    view = memoryview(image)
    return crc32c(view[_COVERED_FROM:], crc32c(view[:_CRC_OFFSET], crc))


def _valid_mark(file: ReadableFile, header: bytearray) -> Mark | None:
    (magic, version, _, generation, lsn, facts, capacity, length, epoch, waiting, crc, _, size) = (
        _HEADER.unpack_from(header)
    )
    if magic != _MAGICS[file.name] or version != VERSION:
        return None
    if SECTOR_BYTES + length > file.size():
        return None
    if _header_crc(header, _snapshot_crc(file, length)) != crc:
        return None
    return Mark(file.name, generation, lsn, facts, capacity, length, epoch, waiting, size)


def _snapshot_crc(file: ReadableFile, length: int) -> int:
    crc = 0
    piece = bytearray(min(length, CHECKPOINT_BUFFER_BYTES))
    for done in range(0, length, CHECKPOINT_BUFFER_BYTES):
        view = memoryview(piece)[: min(len(piece), length - done)]
        file.read_into(view, SECTOR_BYTES + done)
        crc = crc32c(view, crc)
    return crc
