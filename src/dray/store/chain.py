"""A file of JSON lines that are chained by digests: what is done to a line shows in the next one.

`previous` of each line is the SHA-256 of the line before, without its end, and 64 zeros in the
first; `number` counts the lines. Such a file is only ever appended to. A line without an end is one
whose writing a crash ended: nobody relied on it, and the next writer cuts it off.

`audit` says what others did to the storage folder, `access_log` who did what by the manager.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from dray.errors import StoreError
from dray.forks import keep_from_children
from dray.fsync import sync_folder
from dray.own_files import open_own

SEE_TO_IT: Final = "check its disk and its permissions, and start again"
SEE_TO_IT_OR_TURN_IT_OFF: Final = f"{SEE_TO_IT}, or turn the audit off (`audit = false`)"
ORIGIN: Final = "0" * 64
_PIECE: Final = 64 << 10


class ChainHead(NamedTuple):
    """The end of a chain: how many entries there are, and the digest of the last."""

    entries: int
    digest: str


class ChainReport(NamedTuple):
    """The result of a check of the chain; `problem` is empty if the chain is whole."""

    entries: int
    digest: str
    line: int = 0
    problem: str = ""

    @property
    def intact(self) -> bool:
        """Whether nothing was changed, taken out or put in."""
        return not self.problem


BEGINNING: Final = ChainHead(0, ORIGIN)
"""The head with which a chain begins."""
_Entry = TypeVar("_Entry", bound=msgspec.Struct)


class _Links(msgspec.Struct, frozen=True):
    """The two fields that each entry of each chain has."""

    number: int
    previous: str


def verify_chain(path: str | os.PathLike[str], head: ChainHead = BEGINNING) -> ChainReport:
    """Check every line of a file that goes on from `head`; one that is not there is whole.

    Raises StoreError if it cannot be read.
    """
    number, digest = head
    for line, image in enumerate(read_lines(Path(path)), 1):
        problem = _problem(image, number + 1, digest)
        if problem:
            return ChainReport(number, digest, line, problem)
        number, digest = number + 1, _digest(image)
    return ChainReport(number, digest)


def breaks(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Every line that does not fit those before it, and why; the chain goes on from there.

    Raises StoreError if it cannot be read.
    """
    digest, number = ORIGIN, 0
    for line, image in enumerate(read_lines(Path(path)), 1):
        problem = _problem(image, number + 1, digest)
        if problem:
            yield line, problem
        links = _links(image)
        number = number + 1 if links is None else links.number
        digest = _digest(image)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, none if it is not there. Raises StoreError."""
    try:
        with path.open("rb") as file:
            while image := file.readline(_PIECE):
                yield image
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable(path, error) from error


def decoded(lines: Iterable[bytes], kind: type[_Entry]) -> Iterator[_Entry]:
    """The entries in some lines; a line that was changed, or has lost an end, may be none."""
    for image in lines:
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(image, type=kind)


def read_end(path: Path, length: int) -> bytes:
    """The last bytes of a file, none if it is not there. Raises StoreError."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - length))
            return file.read(length)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unusable(path, error) from error


def before_first(path: Path) -> ChainHead:
    """The head that the first line of a file names; the beginning, if that line is no entry."""
    for image in read_lines(path):
        links = _links(image)
        return BEGINNING if links is None else ChainHead(links.number - 1, links.previous)
    return BEGINNING


def moment(now: float) -> str:
    """A time as entries name it."""
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class ChainedFile:
    """A file of chained lines, open for appending; any thread may append."""

    def __init__(self, path: Path, head: ChainHead = BEGINNING) -> None:
        """Open or begin it; an empty one goes on from `head`. Raises StoreError."""
        self.path = path
        self.known = path.exists()
        self._lock = threading.Lock()
        self._descriptor = -1
        keep_from_children(self)
        self.head = head
        self.cut_bytes: int
        """The bytes of an unfinished entry that were cut off; the owner tells of it in an entry."""
        try:
            self._open()
            self._find_head()
        except OSError as error:
            self.close()
            raise unusable(path, error) from error

    def add(self, entries: Sequence[msgspec.Struct]) -> None:
        """Write entries durably, all or none, each linked to the one before. Raises StoreError."""
        with self._lock:
            head, images = self.head, []
            for each in entries:
                links = {"number": head.entries + 1, "previous": head.digest}
                image = msgspec.json.encode(msgspec.structs.replace(each, **links)) + b"\n"
                images.append(image)
                head = ChainHead(head.entries + 1, _digest(image))
            try:
                self._write(b"".join(images))
            except OSError as error:
                raise unusable(self.path, error) from error
            self.head = head

    def close(self) -> None:
        """Give the descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor != -1:
            os.close(descriptor)

    def fileno(self) -> int:
        """The descriptor; below 0 once it is closed."""
        return self._descriptor

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def _open(self) -> None:
        self._descriptor = open_own(self.path)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, os.O_APPEND)
        if not self.known:
            sync_folder(self.path.parent)

    def _write(self, image: bytes) -> None:
        if not os.fstat(self._descriptor).st_nlink:
            # Somebody removed the file; the chain goes on in a new one and shows the loss there.
            self.close()
            self.known = False
            self._open()
        before = self.size
        try:
            if os.write(self._descriptor, image) != len(image):
                raise OSError(errno.ENOSPC, "there is no room for an entry")
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def _find_head(self) -> None:
        (entries, digest), whole, size = self.head, 0, 0
        for image in read_lines(self.path):
            size += len(image)
            if image.endswith(b"\n"):
                links = _links(image)
                entries = entries + 1 if links is None else links.number
                digest, whole = _digest(image), size
        self.head = ChainHead(entries, digest)
        self.cut_bytes = size - whole
        if self.cut_bytes:
            os.ftruncate(self._descriptor, whole)


def unusable(path: Path, error: OSError) -> StoreError:
    """The error for a file of the audit that cannot be read or written."""
    sentence = f"{path} cannot be used for the audit: {error.strerror}; {SEE_TO_IT_OR_TURN_IT_OFF}"
    return StoreError(sentence, file=str(path))


def _problem(image: bytes, number: int, previous: str) -> str:
    """Why a line is not the entry of that number behind the one of that digest."""
    if not image.endswith(b"\n"):
        return "the last entry is unfinished"
    links = _links(image)
    if links is None:
        return "this is no entry"
    if links.previous != previous:
        return "it does not follow from the entry before: an entry was changed, added or lost"
    return "" if links.number == number else f"it says it is number {links.number}"


def _links(image: bytes) -> _Links | None:
    try:
        return msgspec.json.decode(image, type=_Links)
    except msgspec.DecodeError:
        return None


def _digest(image: bytes) -> str:
    return hashlib.sha256(image.removesuffix(b"\n")).hexdigest()
