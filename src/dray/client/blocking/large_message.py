"""The blocking face of `awaited.large_message`."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Self

from dray.client.awaited.large_message import Described
from dray.client.awaited.large_message import LargeMessage as AwaitedLargeMessage
from dray.client.awaited.large_message_file import LargeMessageFile
from dray.client.blocking.face import Face, blocking
from dray.client.calls.public_calls import public
from dray.client.connections.threads import iterate, run
from dray.model.limits import KIB

_BUFFER_BYTES = 64 * KIB
"""Copied from the fragment in memory; larger reads pass it by."""


@public(made_by="LargeMessageQueue.receive")
class LargeMessage(Described, Face[AwaitedLargeMessage]):
    """A received large message: its properties, and its body, which can be read repeatedly.

    Without a transaction of the caller `receive` began one for it. As a context manager the message
    commits it, or aborts it on an exception. Without `with`, `commit` receives the message for good
    and `close` gives it back; a message that is dropped while its transaction is open is given back
    with a `ResourceWarning`. A transaction of the caller is left alone.
    """

    def __init__(self, awaited: AwaitedLargeMessage) -> None:
        """Wrap the awaited message."""
        Face.__init__(self, awaited)
        Described.__init__(self, awaited.said)

    read = blocking(AwaitedLargeMessage.read)
    readinto = blocking(AwaitedLargeMessage.readinto)
    body = blocking(AwaitedLargeMessage.body)
    save_to = blocking(AwaitedLargeMessage.save_to)
    read_range = blocking(AwaitedLargeMessage.read_range)
    commit = blocking(AwaitedLargeMessage.commit)
    close = blocking(AwaitedLargeMessage.close)

    def open(self) -> io.BufferedReader:
        """Open the body as a seekable file; any number may be open at a time.

        A file can be read while the transaction of the message is open. Reads check the CRC32C of
        the fragments, not the digest of the body. Raises `LargeMessageCorrupt`.
        """
        return BufferedLargeMessageFile(self.awaited.open())

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the body in pieces, from its beginning; raises as `read` does."""
        return iterate(aiter(self.awaited))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        run(self.awaited.__aexit__(kind, *rest))


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
