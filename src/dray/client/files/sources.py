"""The source of the body of a large message: bytes, a file, a stream, an iterable of bytes.

Each gives pieces of the fragment size, the last one shorter, as views that stay valid while the
next few pieces are asked for (`PIECES_ALIVE`), so that a digest can be taken behind the back of
the sender while memory stays constant. An empty body is one empty piece.
"""

from __future__ import annotations

import inspect
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar, cast

from dray.client.connections.runtime import Runtime
from dray.client.formatters import Encoder, encoded
from dray.errors import InvalidArgument, SourceChanged, SourceUnreadable
from dray.large.split import SIZE_UNKNOWN
from dray.model.limits import KIB, MIB
from dray.model.message import Buffer

Given = TypeVar("Given")

_READS = ("readinto", "read")
"""Either makes an open file of an object; the first saves a copy."""
PIECES_ALIVE = 3
"""One being read, one being sent, one whose digest is being taken."""
_CLAIMED_BYTES_MAX = 64 * KIB
"""A page, of the largest kind: no kernel claims more for a file that it makes up."""


class Source(ABC):
    """A body. `size` is `SIZE_UNKNOWN` when it shows only at the end."""

    size = SIZE_UNKNOWN
    waits = True
    """Whether the next piece may have to be waited for."""

    @abstractmethod
    def pieces(self, piece_bytes: int) -> Iterator[memoryview]:
        """Give the body in pieces; raises `SourceUnreadable` or `SourceChanged`."""

    def close(self) -> None:  # noqa: B027 - most have opened nothing
        """Let go of what the source itself has opened."""


async def pieces_of(
    source: Source | AwaitedChunkSource, piece_bytes: int, runtime: Runtime
) -> AsyncGenerator[memoryview, None]:
    """Give a body in pieces; what waits for a disk is read where it stops nobody.

    Others have their turn before each piece: small ones go out without any wait, and a queue
    manager that is quick would have all of a long body before anything else could run.
    """
    if isinstance(source, AwaitedChunkSource):
        async for piece in source.pieces(piece_bytes):
            await runtime.let_others()
            yield piece
        return
    pieces = source.pieces(piece_bytes)
    if not source.waits:
        for piece in pieces:
            await runtime.let_others()
            yield piece
        return
    while (read := await runtime.offload(next, pieces, None)) is not None:
        yield read


def source_of(
    body: object, formatter: Encoder | None, *, awaited: bool = False
) -> Source | AwaitedChunkSource:
    """Find out what a body is; what is none goes through the formatter; raises `TypeError`.

    `awaited`: it may come with `async for`.
    """
    if isinstance(body, (bytes, bytearray)):
        return BytesSource(body)
    if isinstance(body, FileSource):
        return body
    if isinstance(body, Path):
        return FileSource(body)
    awaits = [inspect.iscoroutinefunction(getattr(body, each, None)) for each in _READS]
    if any(awaits):
        if not awaited:
            raise TypeError(f"a {type(body).__name__} is awaited: send it with dray.aio")
        if awaits[0]:
            return AwaitedStreamSource(cast("AwaitedStream", body))
        return AwaitedChunkSource(_chunks_of(cast("AwaitedReader", body)))
    if hasattr(body, "read"):
        return StreamSource(cast("BinaryIO", body))
    if formatter is not None:
        return BytesSource(encoded(formatter, body))
    if awaited and isinstance(body, AsyncIterable):
        return AwaitedChunkSource(body)
    try:
        # An array is an iterable too, but not of its bytes.
        return BytesSource(memoryview(cast("Buffer", body)))
    except (TypeError, ValueError, BufferError) as error:
        if isinstance(body, Iterable) and not isinstance(body, (str, dict, memoryview)):
            return ChunkSource(body)
        raise TypeError(
            f"a large message's body is bytes, a pathlib.Path, a binary file or an iterable of"
            f" bytes; give a formatter to send a {type(body).__name__}"
        ) from error


class AwaitedStream(Protocol):
    """An open file that fills memory of its reader: a large message, a body over HTTP."""

    async def readinto(self, room: memoryview, /) -> int:
        """Put at least one byte into `room`; 0 at the end."""
        ...


class AwaitedReader(Protocol):
    """An open file whose bytes are awaited: a stream of asyncio's."""

    async def read(self, size: int, /) -> bytes:
        """Up to so many bytes; none at the end."""
        ...


async def _chunks_of(stream: AwaitedReader) -> AsyncGenerator[bytes, None]:
    while chunk := await stream.read(MIB):
        yield chunk


def _flat(body: Buffer) -> memoryview:
    """The bytes of a buffer of any shape and kind, in the order in which it is read."""
    view = memoryview(body)
    if view.nbytes and view.c_contiguous:
        try:
            return view.cast("B")
        except ValueError:
            # Numbers in an order that is not this machine's cannot be cast, only copied.
            pass
    return memoryview(view.tobytes())


class BytesSource(Source):
    """Bytes in memory, cut without being copied."""

    waits = False

    def __init__(self, body: bytes | bytearray | memoryview) -> None:
        """Look at the bytes; they must stay as they are until the send returns."""
        self._view = _flat(body)
        self.size = len(self._view)

    def pieces(self, piece_bytes: int) -> Iterator[memoryview]:
        """Give slices of the bytes."""
        for start in range(0, max(1, self.size), piece_bytes):
            yield self._view[start : start + piece_bytes]


class ChunkSource(Source):
    """An iterable of bytes of any lengths, gathered into pieces."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        """Iterate once, when the pieces are asked for."""
        self._chunks = chunks

    def pieces(self, piece_bytes: int) -> Iterator[memoryview]:
        """Copy the chunks into a few buffers in turn."""
        gathering = _Gathering(piece_bytes)
        for chunk in self._chunks:
            yield from gathering.full(chunk)
        yield from gathering.rest()


class AwaitedChunkSource:
    """An asynchronous iterable of bytes of any lengths, gathered into pieces."""

    size = SIZE_UNKNOWN

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        """Iterate once, when the pieces are asked for."""
        self._chunks = chunks

    async def pieces(self, piece_bytes: int) -> AsyncGenerator[memoryview, None]:
        """Copy the chunks into a few buffers in turn."""
        gathering = _Gathering(piece_bytes)
        async for chunk in self._chunks:
            for piece in gathering.full(chunk):
                yield piece
        for piece in gathering.rest():
            yield piece

    def close(self) -> None:
        """Nothing was opened."""


class AwaitedStreamSource(AwaitedChunkSource):
    """An open file that fills the pieces themselves, so that nothing is copied."""

    def __init__(self, stream: AwaitedStream) -> None:
        """Read from where the stream stands."""
        self._stream = stream

    async def pieces(self, piece_bytes: int) -> AsyncGenerator[memoryview, None]:
        """Read into a few buffers in turn."""
        sent = False
        for buffer in buffers(piece_bytes):
            have = 0
            while have < piece_bytes and (count := await self._stream.readinto(buffer[have:])):
                have += count
            if have or not sent:
                yield buffer[:have]
            if have < piece_bytes:
                return
            sent = True


class _Gathering:
    """Chunks in, pieces of one length out."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._buffers = buffers(piece_bytes)
        self._buffer = next(self._buffers)
        self._have = 0
        self._sent = False

    def full(self, chunk: bytes) -> Iterator[memoryview]:
        """Take in a chunk; give the pieces that are full then."""
        try:
            rest = _flat(chunk)
        except TypeError as error:
            raise TypeError(
                "an iterable that is sent as a large message gives bytes, not"
                f" {type(chunk).__name__}; give a formatter to send an object"
            ) from error
        while len(rest):
            taken = min(len(rest), self._piece_bytes - self._have)
            self._buffer[self._have : self._have + taken] = rest[:taken]
            self._have, rest = self._have + taken, rest[taken:]
            if self._have == self._piece_bytes:
                yield self._buffer
                self._buffer, self._have, self._sent = next(self._buffers), 0, True

    def rest(self) -> Iterator[memoryview]:
        """Give what is left; of nothing at all, one empty piece."""
        if self._have or not self._sent:
            yield self._buffer[: self._have]


class StreamSource(Source):
    """An open binary file, read to its end."""

    def __init__(self, stream: BinaryIO, name: str = "") -> None:
        """Read from where the stream stands; `name` is for sentences."""
        self._stream = stream
        self._name = name or str(getattr(stream, "name", "the stream"))

    def pieces(self, piece_bytes: int) -> Iterator[memoryview]:
        """Read into a few buffers in turn."""
        sent = False
        for buffer in buffers(piece_bytes):
            have = self._fill(buffer)
            if have or not sent:
                yield buffer[:have]
            if have < piece_bytes:
                return
            sent = True

    def _fill(self, buffer: memoryview) -> int:
        have = 0
        while have < len(buffer):
            try:
                count = self._read_into(buffer[have:])
            except OSError as error:
                raise unreadable(self._name, error) from error
            if not count:
                break
            have += count
        return have

    def _read_into(self, room: memoryview) -> int:
        readinto = getattr(self._stream, "readinto", None)
        if readinto is not None:
            count: int | None = readinto(room)
            return self._there(count)
        data: object = self._there(self._stream.read(len(room)))
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError("the file was opened as text; open it with mode 'rb'")
        if len(data) > len(room):
            raise InvalidArgument(
                f"{self._name} returned {len(data)} bytes when asked for {len(room)}",
                argument="body",
            )
        room[: len(data)] = data
        return len(data)

    def _there(self, given: Given | None) -> Given:
        """Check a read; raises `SourceUnreadable` for nothing yet, which is not the end."""
        if given is None:
            raise SourceUnreadable(
                f"cannot read {self._name}: a read returned no bytes before the end, because it"
                " does not block; set it to block",
                path=self._name,
            )
        return given


class FileSource(Source):
    """A file by its path. A regular one must not change while it is sent; others are streams."""

    def __init__(self, path: Path, *, follow_links: bool = True) -> None:
        """Open the file; raises `SourceUnreadable`, also for a symbolic link not to be followed."""
        self.path = path
        more = 0 if follow_links else os.O_NOFOLLOW
        try:
            self._file = FileIO(path, opener=lambda name, flags: os.open(name, flags | more))
        except OSError as error:
            raise unreadable(str(path), error) from error
        self.before = os.fstat(self._file.fileno())
        self.is_regular = has_its_size(self._file.fileno(), self.before)
        self.size = self.before.st_size if self.is_regular else SIZE_UNKNOWN

    @property
    def descriptor(self) -> int:
        """For those who read it by themselves."""
        return self._file.fileno()

    def pieces(self, piece_bytes: int) -> Iterator[memoryview]:
        """Read the file, then make sure that it is still what it was."""
        stream = StreamSource(self._file, str(self.path))
        if self.size == SIZE_UNKNOWN:
            yield from stream.pieces(piece_bytes)
            return
        sent = 0
        # One byte of room more than the file has shows one that grows.
        for piece in stream.pieces(min(piece_bytes, self.size + 1)):
            sent += len(piece)
            if sent > self.size:
                break
            yield piece
        self._check_unchanged(sent)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_unchanged(self, sent: int) -> None:
        if not self._is_as_before() or sent != self.size:
            raise self.changed()

    def _is_as_before(self) -> bool:
        after, before = os.fstat(self._file.fileno()), self.before
        return (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)

    def changed(self) -> SourceChanged:
        """The error for a file that has changed."""
        size = os.fstat(self._file.fileno()).st_size
        how = f"it had {self.size} bytes, now {size}"
        if size == self.size:
            how = f"it still has {size} bytes, but was written to"
        return SourceChanged(
            f"{self.path} changed while Dray sent it ({how}); nothing of it was committed, so"
            " send it again",
            path=str(self.path),
        )

    def not_read(self) -> SourceChanged | SourceUnreadable:
        """The error when the queue manager, to which the file was lent, could not read it."""
        if not self._is_as_before():
            return self.changed()
        return SourceUnreadable(
            f"the queue manager could not read {self.path}, which the client lent it, or not in"
            " time; nothing of it was committed, so send it again",
            path=str(self.path),
        )


def has_its_size(descriptor: int, found: os.stat_result) -> bool:
    """Whether an open file has as many bytes as it says, as regular files have.

    Pipes and devices say none, and a kernel that makes a file up as it is read (`/proc`, `/sys`)
    says 0, or a page. Looked into is only what takes no room on a disk and claims little.
    """
    if not stat.S_ISREG(found.st_mode):
        return False
    if found.st_blocks or found.st_size > _CLAIMED_BYTES_MAX:
        return True
    try:
        there = len(os.pread(descriptor, _CLAIMED_BYTES_MAX + 1, 0))
    except OSError:
        # A reader of the stream is told why it cannot be read.
        return False
    # One that somebody is writing to has a size, and another one now.
    return there == found.st_size or os.fstat(descriptor).st_size != found.st_size


def unreadable(path: str, error: OSError) -> SourceUnreadable:
    """Say that a source cannot be read."""
    reason = error.strerror or error
    return SourceUnreadable(f"cannot read {path}: {reason}; mend that, or name another", path=path)


def buffers(size: int) -> Iterator[memoryview]:
    """Give the same few buffers in turn, for ever; each is made when it is first needed."""
    made: list[memoryview] = []
    while True:
        for at in range(PIECES_ALIVE):
            if at == len(made):
                made.append(memoryview(bytearray(size)))
            yield made[at]
