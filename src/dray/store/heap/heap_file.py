"""The bookkeeping of one heap file: how far it is written, what is dirty, which blocks are live.

Each file counts its writes. A sync captures the count and reports it back when it has ended, so
that writes which arrived meanwhile stay dirty. Live bytes are counted for each block of 512 bytes:
extents adjoin without alignment and are given up in other pieces than they were placed in, and
counts of bytes are right whatever the pieces. While all that is live lies in one piece its two ends
say the same: a file of a large message costs no table, and there are 256 files in each GiB.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from dray.errors import StoreCorrupt
from dray.store.decisions import BRING_IT_BACK
from dray.store.disk import MESSAGE_FILE_UNREADABLE, File, ReadableBuffer
from dray.store.kinds import Kind, file_name, kind_of
from dray.store.limits import BEGIN_BYTES_MIN, BLOCK_BYTES, COPIED_BYTES_MAX, WRITE_PIECE_BYTES


class Extent(NamedTuple):
    """The place of some bytes: `length` bytes at `offset` in heap file number `file`."""

    file: int
    offset: int
    length: int


_extent_of: Callable[[tuple[int, int, int]], Extent] = partial(tuple.__new__, Extent)


class LiveBlocks:
    """The number of live bytes in each block of a file."""

    __slots__ = ("_bits", "_counts", "_start", "_stop")

    def __init__(self) -> None:
        self._counts: array[int] | None = None
        """Live bytes of each block, once they do not lie in one piece."""
        self._start = self._stop = 0
        self._bits: bytes | None = b""

    def add(self, offset: int, length: int) -> None:
        """Bytes became live."""
        self._bits = None
        if self._counts is None:
            if self._start == self._stop:
                self._start, self._stop = offset, offset + length
                return
            if offset == self._stop:
                self._stop += length
                return
            self._counts = self._spread_out()
        _change(self._counts, offset, length, 1)

    def remove(self, offset: int, length: int) -> None:
        """Bytes are live no longer."""
        self._bits = None
        if self._counts is None:
            inside = self._start <= offset and offset + length <= self._stop
            assert inside, f"{length} bytes at {offset} were not live"
            if offset == self._start:
                self._start += length
                return
            if offset + length == self._stop:
                self._stop = offset
                return
            self._counts = self._spread_out()
        _change(self._counts, offset, length, -1)

    def clear(self) -> None:
        """Nothing is live any longer."""
        self._counts, self._bits = None, b""
        self._stop = self._start

    def bits(self) -> bytes:
        """One bit a block, the lowest bit of the first byte for the first; no zeros at the end."""
        if self._bits is None:
            image = self._image()
            self._bits = image.to_bytes(-(-image.bit_length() // 8), "little")
        return self._bits

    def _image(self) -> int:
        if self._counts is None:
            if self._start == self._stop:
                return 0
            first, last = self._start // BLOCK_BYTES, (self._stop - 1) // BLOCK_BYTES
            return ((1 << (last + 1 - first)) - 1) << first
        # Mostly everything up to some place is live, and there are thousands of files. Two zeros
        # may also be the halves of neighbours; then the longer way gives the same.
        if b"\0\0" not in self._counts.tobytes():
            return (1 << len(self._counts)) - 1
        digits = bytes(map(bool, self._counts)).translate(_DIGITS)
        return int(digits[::-1], 2)

    def _spread_out(self) -> array[int]:
        """The same as counts of each block."""
        counts = array("H")
        _change(counts, self._start, self._stop - self._start, 1)
        return counts


def _change(counts: array[int], offset: int, length: int, sign: int) -> None:
    stop = offset + length
    first, last = offset // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
    if last >= len(counts):
        counts.extend(array("H", bytes(2 * (last + 1 - len(counts)))))
    if first == last:
        counts[first] += sign * length
        return
    counts[first] += sign * ((first + 1) * BLOCK_BYTES - offset)
    counts[last] += sign * (stop - last * BLOCK_BYTES)
    whole = last - first - 1
    if whole:
        # Inside an extent each block belongs to it alone.
        counts[first + 1 : last] = _FULL[:whole] if sign == 1 else _EMPTY[:whole]


_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")
_MOST: Final = 1 << 16
_FULL: Final = array("H", [BLOCK_BYTES]) * _MOST
_EMPTY: Final = array("H", [0]) * _MOST


@dataclass(slots=True)
class Occupancy:
    """The live extents of one file, added up. `size` is the file's, None if it is missing."""

    live: int = 0
    end: int = 0
    blocks: LiveBlocks = field(default_factory=LiveBlocks)
    size: int | None = None

    def add(self, extent: Extent) -> None:
        """Count one more extent."""
        self.live += extent.length
        self.end = max(self.end, extent.offset + extent.length)
        self.blocks.add(extent.offset, extent.length)


class Capture(NamedTuple):
    """The part of a file that a sync will make durable."""

    heap_file: HeapFile
    file: File
    writes: int
    start: int
    position: int
    era: int


class HeapFile:
    """State of one heap file."""

    __slots__ = (
        "blocks",
        "copied_to",
        "dirty_from",
        "era",
        "file",
        "handed",
        "kind",
        "live",
        "lost",
        "memory",
        "newest",
        "number",
        "open",
        "pins",
        "position",
        "readers",
        "settled",
        "synced",
        "used",
        "writes",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.kind = kind_of(number)
        self.file: File | None = None
        self.memory: bytearray | None = None
        """The bytes of an express file that was not written to the disk."""
        self.blocks = LiveBlocks()
        self.live = 0
        self.open = False
        self.lost = False
        """Whether it was missing at the start, with live bytes."""
        self.position = 0
        self.dirty_from = 0
        self.copied_to = 0
        """Bytes below are durable, or the log has copies of them."""
        self.newest = b""
        """The uncovered bytes, if one write wrote them and the log may copy them; else none."""
        self.settled = False
        """Whether its name and its size are durable for certain."""
        self.era = 0
        """The number of its rewinds; positions of different eras cannot be compared."""
        self.writes = 0
        self.synced = 0
        self.pins = 0
        # Answers on their way that refer to its bytes.
        self.readers = 0
        self.handed = False

    @property
    def dirty(self) -> bool:
        """Whether it has bytes that no ended sync covered."""
        return self.writes > self.synced

    @property
    def uncovered_bytes(self) -> int:
        """The number of its bytes that no ended sync covers and the log has no copies of."""
        return self.position - max(self.dirty_from, self.copied_to)

    def write(self, file: File, data: ReadableBuffer) -> None:
        """Write `data` at its position in `file`."""
        length = len(data)
        if length < BEGIN_BYTES_MIN or self.kind is Kind.EXPRESS:
            file.write(data, self.position)
        else:
            _write_begun(file, memoryview(data), self.position)
        is_all = self.position == max(self.dirty_from, self.copied_to)
        self.newest = bytes(data) if is_all and length <= COPIED_BYTES_MAX else b""

    def written(self, length: int) -> Extent:
        """Note that `length` bytes were written at its position, and say where that is."""
        extent = _extent_of((self.number, self.position, length))
        self.position += length
        if length:
            self.live += length
            self.blocks.add(extent.offset, length)
        if self.kind is not Kind.EXPRESS:
            self.writes += 1
        return extent

    def freed(self, extent: Extent) -> None:
        """Note that the bytes of `extent` are live no longer."""
        self.live -= extent.length
        assert self.live >= 0, "an extent was freed twice"
        self.blocks.remove(extent.offset, extent.length)

    def remember(self, data: ReadableBuffer) -> None:
        """Keep `data` in memory, at its position."""
        assert self.memory is not None, "only express files are in memory"
        self.memory[self.position :] = data

    def capture(self, file: File) -> Capture:
        """Note what a sync that begins now will cover."""
        self.pins += 1
        return Capture(self, file, self.writes, self.dirty_from, self.position, self.era)

    def captured_is_durable(self, capture: Capture) -> None:
        """A sync of `capture` has ended."""
        self.pins -= 1
        self.settled = True
        self.newest = b""
        self.synced = max(self.synced, capture.writes)
        if capture.era == self.era:
            self.dirty_from = max(self.dirty_from, capture.position)

    def copied(self, stop: int) -> None:
        """The log has copies of all bytes up to `stop`."""
        self.copied_to, self.newest = stop, b""

    def rewind(self) -> None:
        """Forget everything in it: nothing live is left, so nothing needs a sync either."""
        self.position = self.dirty_from = self.copied_to = 0
        self.synced, self.newest = self.writes, b""
        self.era += 1
        self.lost = False
        self.blocks.clear()


def _write_begun(file: File, data: memoryview, at: int) -> None:
    """Write piece by piece; the disk works at what is there, not only when a sync asks for it."""
    for start in range(0, len(data), WRITE_PIECE_BYTES):
        file.write(data[start : start + WRITE_PIECE_BYTES], at + start)
        file.begin_writing()


def missing_file(number: int) -> StoreCorrupt:
    """The error for a missing heap file that has live bytes."""
    name = file_name(number)
    sentence = f"{name} is missing, and the log says that messages lie in it; {BRING_IT_BACK}"
    return StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)


def short_file(number: int) -> StoreCorrupt:
    """The error for a heap file that ends before bytes that are live."""
    name = file_name(number)
    sentence = f"{name} is shorter than the log says; {BRING_IT_BACK}"
    return StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)
