"""The archive: one queue manager as bytes, at one moment, whole or refused by name.

    archive   = header, piece...                                 all numbers little-endian
    header    "DRAYBKUP" (8), version 1 (2), zeros (6)
    piece     kind (1), packing (1), zeros (2), stored bytes (4), bytes (4), CRC32C (4), stored

    kind      holds
    1 about   MessagePack: `About`; the first piece
    2 state   a part of the manager's state, as in a checkpoint
    3 records runs of heap bytes: their count (4); heap file, offset, length (4 each); their bytes
    4 end     MessagePack: `End`, with the SHA-256 of all bytes before this piece; the last one

Packing is 0 for bytes as they are and 1 for a Zstandard frame. The CRC32C covers the first 12 bytes
of the piece and what is stored. Writer and reader hold one piece at a time. Never change the magic
and the place of the version.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from dray.checksum import crc32c
from dray.errors import BackupDamaged
from dray.model.limits import ARCHIVE_PIECE_BYTES_MAX

if sys.version_info >= (3, 14):
    from compression import zstd  # novermin
else:
    from backports import zstd

MAGIC: Final = b"DRAYBKUP"
VERSION: Final = 1
HEADER: Final = struct.Struct("<8sH6x")
PIECE: Final = struct.Struct("<BBHIII")
_CHECKED: Final = struct.Struct("<BBHII")
_COUNT: Final = struct.Struct("<I")
RUN: Final = struct.Struct("<III")

ABOUT, STATE, RECORDS, END = 1, 2, 3, 4
_STORED, _PACKED = 0, 1
LEVEL: Final = 3
_Told = TypeVar("_Told", bound=msgspec.Struct)


class About(msgspec.Struct, array_like=True, frozen=True):
    """The queue manager of the backup, its time, and its size."""

    manager_id: str
    name: str
    version: str
    taken_us: int
    messages: int
    record_bytes: int
    state_bytes: int
    heap_file_bytes: int


class End(msgspec.Struct, array_like=True, frozen=True):
    """The number of pieces before, and the SHA-256 of all of it."""

    pieces: int
    sha256: bytes


class Run(NamedTuple):
    """Bytes of the heap: where they lay, and they themselves."""

    file: int
    offset: int
    data: memoryview


class ArchiveWriter:
    """Writes an archive from beginning to end."""

    def __init__(self, write: Callable[[bytes], object], about: About) -> None:
        """Give everything to `write`, beginning with what the archive is about."""
        self._write = write
        self._digest = hashlib.sha256()
        self._pieces = 0
        self.bytes_written = 0
        self._put(HEADER.pack(MAGIC, VERSION))
        self._piece(ABOUT, msgspec.msgpack.encode(about))

    def state(self, data: bytes | memoryview) -> None:
        """Write a part of the state."""
        self._piece(STATE, data)

    def records(self, runs: bytes, data: bytes | memoryview) -> None:
        """Write runs of heap bytes: their packed places, and all their bytes one after another."""
        self._piece(RECORDS, b"".join((_COUNT.pack(len(runs) // RUN.size), runs, data)))

    def end(self) -> str:
        """Write the last piece; give the SHA-256 of all before it as text."""
        digest = self._digest.digest()
        self._piece(END, msgspec.msgpack.encode(End(self._pieces, digest)))
        return digest.hex()

    def _piece(self, kind: int, data: bytes | memoryview) -> None:
        packing, stored = _PACKED, bytes(zstd.compress(data, level=LEVEL))
        if len(stored) >= len(data):
            packing, stored = _STORED, bytes(data)
        checked = _CHECKED.pack(kind, packing, 0, len(stored), len(data))
        crc = crc32c(stored, crc32c(checked))
        self._put(checked + crc.to_bytes(4, "little"))
        self._put(stored)
        self._pieces += 1

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self.bytes_written += len(data)
        self._write(data)


class ArchiveReader:
    """Reads an archive from beginning to end, believing nothing that its checksums do not cover."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        """Take bytes from `read`, as of a file; `name` is for sentences. Raises BackupDamaged."""
        self._read = read
        self._name = name
        self._digest = hashlib.sha256()
        self._pieces = 0
        self.bytes_read = 0
        self.sha256 = ""
        """SHA-256 of the whole archive, once it has been read."""
        self._ahead: tuple[int, bytes] | None = None
        magic, version = HEADER.unpack(self._take(HEADER.size))
        if magic != MAGIC:
            raise self.damaged("it does not begin like a backup")
        if version != VERSION:
            raise self.damaged(f"it is of version {version}, this is {VERSION}")
        kind, data = self._piece()
        if kind != ABOUT:
            raise self.damaged("it does not say first what it is about")
        self.about = self._decoded(data, About)

    def state(self) -> bytes:
        """The whole state; once, before `runs`."""
        parts = []
        while self._ahead is None:
            kind, data = self._piece()
            if kind == STATE:
                parts.append(data)
            else:
                self._ahead = kind, data
        state = b"".join(parts)
        if len(state) != self.about.state_bytes:
            raise self.damaged(f"its state has {len(state)} of {self.about.state_bytes} bytes")
        return state

    def runs(self) -> Iterator[Run]:
        """All heap bytes, piece by piece, then the check of the whole."""
        total = 0
        assert self._ahead is not None, "the state is read before the records"
        kind, data = self._ahead
        while kind == RECORDS:
            for run in self._cut(data):
                total += len(run.data)
                yield run
            kind, data = self._piece()
        if kind != END:
            raise self.damaged(f"piece {self._pieces} is out of order")
        if total != self.about.record_bytes:
            raise self.damaged(f"it has {total} of {self.about.record_bytes} bytes of records")

    def damaged(self, what: str) -> BackupDamaged:
        """The error that says so."""
        return BackupDamaged(f"{self._name} cannot be restored: {what}", archive=self._name)

    def _cut(self, data: bytes) -> Iterator[Run]:
        view = memoryview(data)
        at = _COUNT.size + int.from_bytes(view[: _COUNT.size], "little") * RUN.size
        if at > len(view):
            raise self.damaged(f"piece {self._pieces} is too short for its runs")
        for file, offset, length in RUN.iter_unpack(view[_COUNT.size : at]):
            if at + length > len(view):
                raise self.damaged(f"piece {self._pieces} is too short for its runs")
            yield Run(file, offset, view[at : at + length])
            at += length

    def _piece(self) -> tuple[int, bytes]:
        whole = self._digest.copy()
        fixed = self._take(PIECE.size)
        kind, packing, _, stored_bytes, size, crc = PIECE.unpack(fixed)
        if max(stored_bytes, size) > ARCHIVE_PIECE_BYTES_MAX:
            raise self.damaged(f"piece {self._pieces + 1} says that it is longer than any can be")
        stored = self._take(stored_bytes)
        if crc32c(stored, crc32c(fixed[: _CHECKED.size])) != crc:
            raise self.damaged(f"piece {self._pieces + 1} is damaged, its CRC32C does not fit")
        data = self._unpacked(stored, packing, size)
        if kind == END:
            self._check_end(data, whole.digest())
        self._pieces += 1
        return kind, data

    def _unpacked(self, stored: bytes, packing: int, size: int) -> bytes:
        if packing == _STORED and len(stored) == size:
            return stored
        try:
            data = bytes(zstd.ZstdDecompressor().decompress(stored, max_length=size))
        except zstd.ZstdError as error:
            raise self.damaged(f"piece {self._pieces + 1} cannot be unpacked: {error}") from error
        if packing != _PACKED or len(data) != size:
            raise self.damaged(f"piece {self._pieces + 1} does not unpack to what it says")
        return data

    def _check_end(self, data: bytes, sha256: bytes) -> None:
        end = self._decoded(data, End)
        if end.sha256 != sha256 or end.pieces != self._pieces:
            raise self.damaged("its SHA-256 does not fit: pieces are missing or exchanged")
        self.sha256 = end.sha256.hex()
        if self._read(1):
            raise self.damaged("it goes on behind its end")

    def _decoded(self, data: bytes, kind: type[_Told]) -> _Told:
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise self.damaged(f"its {kind.__name__} piece cannot be read: {error}") from error

    def _take(self, count: int) -> bytes:
        parts, missing = [], count
        while missing:
            part = self._read(missing)
            if not part:
                raise self.damaged(f"it ends in piece {self._pieces + 1}, before its last one")
            parts.append(part)
            missing -= len(part)
        data = b"".join(parts)
        self._digest.update(data)
        self.bytes_read += count
        return data


def pack_runs(places: Iterable[tuple[Any, ...]]) -> bytes:
    """Pack the places of runs: heap file, offset, length."""
    return b"".join([RUN.pack(*place) for place in places])
