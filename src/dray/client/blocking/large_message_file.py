"""A large message as a Python file: the blocking face of `awaited.large_message_file`."""

from __future__ import annotations

import io
import os

from dray.client.awaited.large_message_file import LargeMessageFile
from dray.client.connections.threads import run
from dray.model.limits import KIB

_BUFFER_BYTES = 64 * KIB
"""Copied from the fragment in memory; larger reads pass it by."""


class BufferedLargeMessageFile(io.BufferedReader):
    """A seekable binary file, for one thread or many.

    Its buffer cannot be read either once the transaction has ended.
    """

    def __init__(self, file: LargeMessageFile) -> None:
        """Wrap the awaited file."""
        super().__init__(_RawFile(file), _BUFFER_BYTES)
        self._file = file

    def read(self, size: int | None = -1, /) -> bytes:
        """See `LargeMessageFile.read`."""
        self._file.check_usable()
        return super().read(size)

    def read1(self, size: int = -1, /) -> bytes:
        """Read what one fetch gives, up to `size` bytes."""
        self._file.check_usable()
        return super().read1(size)

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """See `LargeMessageFile.readinto`."""
        self._file.check_usable()
        return super().readinto(buffer)

    def readinto1(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer with what one fetch gives."""
        self._file.check_usable()
        return super().readinto1(buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read up to the end of a line."""
        self._file.check_usable()
        return super().readline(size)

    def peek(self, size: int = 0, /) -> bytes:
        """Look at what comes next."""
        self._file.check_usable()
        return super().peek(size)

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        """See `LargeMessageFile.seek`."""
        self._file.check_usable()
        return super().seek(target, whence)


class _RawFile(io.RawIOBase):
    def __init__(self, file: LargeMessageFile) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return self._is_open()

    def seekable(self) -> bool:
        return self._is_open()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return run(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()

    def _is_open(self) -> bool:
        """True; raises `ValueError` once it is closed, as files of Python's own do."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return True
