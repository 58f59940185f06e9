"""Reads the first rows of a Parquet file, in a process of its own with little memory and time.

The file is a sender's: thirteen kilobytes may unpack to a gigabyte, and a library may crash on what
nobody has tested. The console starts this program and gives it ranges of the file.

    from here    offset and length (`<qq`): give that range; with offset -1, `length` bytes of JSON
                 follow, which are the columns, the rows and the number of all rows
    to here      the bytes of the range, of that length
"""

from __future__ import annotations

import io
import json
import resource
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

ASKED: Final = struct.Struct("<qq")
ANSWER: Final = -1
"""In place of an offset."""
ROWS_MAX: Final = 50
COLUMNS_MAX: Final = 40
CELL_CHARACTERS_MAX: Final = 200
_MEMORY_BYTES: Final = 256 << 20
"""Above what the loaded library has: a few pages of forty columns."""
_PROCESSOR_S: Final = 10
_BUFFER_BYTES: Final = 64 << 10
ENVIRONMENT: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""Other allocators, and an arena for each thread, reserve gigabytes of addresses."""


class _FarFile(io.RawIOBase):
    """The file, of which the other process gives ranges."""

    def __init__(self, size: int, asked: BinaryIO, given: BinaryIO) -> None:
        super().__init__()
        self._size, self._asked, self._given = size, asked, given
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        length = max(0, min(len(buffer), self._size - self._at))
        if not length:
            return 0
        self._asked.write(ASKED.pack(self._at, length))
        self._asked.flush()
        piece = self._given.read(length)
        if len(piece) < length:
            raise OSError("the console gives no more of the file")
        memoryview(buffer).cast("B")[:length] = piece
        self._at += length
        return length


def main(size: int) -> None:
    """Read the rows and say them; a file that is none, or needs too much, ends this in silence."""
    asked, given = sys.stdout.buffer, sys.stdin.buffer
    import pyarrow as pa  # noqa: PLC0415 - the console does without it
    from pyarrow import parquet  # noqa: PLC0415

    _limit()
    try:
        opened = parquet.ParquetFile(_FarFile(size, asked, given), buffer_size=_BUFFER_BYTES)
        names = list(opened.schema_arrow.names[:COLUMNS_MAX])
        batches = opened.iter_batches(batch_size=ROWS_MAX, columns=names, use_threads=False)
        batch = next(batches, None)
        rows = [] if batch is None else batch.to_pylist()
        cells = [[cell_of(row[name]) for name in names] for row in rows]
        said = json.dumps([names, cells, opened.metadata.num_rows]).encode()
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        return
    asked.write(ASKED.pack(ANSWER, len(said)) + said)
    asked.flush()


def cell_of(value: Any) -> str:  # noqa: ANN401 - whatever a column holds
    """A value in a table, cut where it is long."""
    text = "" if value is None else str(value)
    return text if len(text) <= CELL_CHARACTERS_MAX else text[:CELL_CHARACTERS_MAX] + "…"


def _limit() -> None:
    """Take no more memory than a little above what is taken already, and little time."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        taken = pages * resource.getpagesize()
    except OSError:
        taken = 4 * _MEMORY_BYTES
    most = taken + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
