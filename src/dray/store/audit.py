"""The audit: what others did to the storage folder, one JSON line each, chained by digests (S3-17).

    {"number":1,"time":"2026-03-01T12:00:00.000Z","change":"edited","file":"QMLog","seen":"running",
     "detail":"67108864 bytes","previous":"0000...0000"}

`audit.jsonl` lies beside the storage folder and is only ever appended to. `previous` is the SHA-256
of the line before, without its end, and 64 zeros in the first. So a line that was changed, taken
out or put in breaks the chain; that the newest lines were cut off shows in the manifest, which
notes the head of the chain whenever the manager stops. A line without an end is one whose writing a
crash ended: nobody relied on it, it is cut off, and the cut is the next entry.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dray.errors import StoreError
from dray.forks import keep_from_children
from dray.own_files import FILE_MODE

SEE_TO_IT: Final = "see to its disk and its permissions, and start again"
SEE_TO_IT_OR_TURN_IT_OFF: Final = f"{SEE_TO_IT}, or turn the audit off (`audit = false`)"
AUDIT_NAME: Final = "audit.jsonl"
ORIGIN: Final = "0" * 64
_PIECE: Final = 64 << 10
_log = logging.getLogger("dray.audit")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `change`: added, edited, deleted, moved, cut; `seen`: running, start, command."""

    number: int
    time: str
    change: str
    file: str
    seen: str
    detail: str = ""
    previous: str = ORIGIN


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


def verify_chain(path: str | os.PathLike[str]) -> ChainReport:
    """Check every line of an audit; one that is not there is whole and empty.

    Raises StoreError if it cannot be read.
    """
    digest, line = ORIGIN, 0
    for line, image in enumerate(_lines(Path(path)), 1):
        problem = _problem(image, line, digest)
        if problem:
            return ChainReport(line - 1, digest, line, problem)
        digest = _digest(image)
    return ChainReport(line, digest)


def breaks(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Every line that does not fit those before it, and why; the chain goes on from there.

    Raises StoreError if it cannot be read.
    """
    digest, number = ORIGIN, 0
    for line, image in enumerate(_lines(Path(path)), 1):
        problem = _problem(image, number + 1, digest)
        if problem:
            yield line, problem
        entry = _decoded(image)
        number = number + 1 if entry is None else entry.number
        digest = _digest(image)


def read_entries(path: str | os.PathLike[str]) -> Iterator[AuditEntry]:
    """All entries that can be read, oldest first. Raises StoreError."""
    for image in _lines(Path(path)):
        entry = _decoded(image)
        if entry is not None:
            yield entry


class AuditLog:
    """The audit of one data directory, open for appending; any thread may append."""

    def __init__(self, data: str | os.PathLike[str]) -> None:
        """Open or begin `audit.jsonl` in the data directory. Raises StoreError."""
        self.path = Path(data) / AUDIT_NAME
        self.known = self.path.exists()
        self._lock = threading.Lock()
        self._descriptor = -1
        keep_from_children(self)
        self.head = ChainHead(0, ORIGIN)
        self.cut_bytes = 0
        """How much of an unfinished entry was cut off; the owner tells of it in an entry."""
        try:
            self._open()
            self._find_head()
        except OSError as error:
            self.close()
            raise _unusable(self.path, error) from error

    def append(self, change: str, file: str, *, seen: str, now: float, detail: str = "") -> None:
        """Write an entry durably, and to the log of the program. Raises StoreError."""
        with self._lock:
            moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
            entry = AuditEntry(
                number=self.head.entries + 1,
                time=moment.replace("+00:00", "Z"),
                change=change,
                file=file,
                seen=seen,
                detail=detail,
                previous=self.head.digest,
            )
            image = msgspec.json.encode(entry) + b"\n"
            try:
                self._write(image)
            except OSError as error:
                raise _unusable(self.path, error) from error
            self.head = ChainHead(entry.number, _digest(image))
        if seen != "command":
            _log.warning("%s was %s by another program%s", file, change, detail and f": {detail}")

    def close(self) -> None:
        """Give the descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fileno(self) -> int:
        """The descriptor; below 0 once it is closed."""
        return self._descriptor

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, FILE_MODE)
        if not self.known:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _write(self, image: bytes) -> None:
        if not os.fstat(self._descriptor).st_nlink:
            # Somebody removed the file; the chain goes on in a new one and shows the loss there.
            self.close()
            self.known = False
            self._open()
        before = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, image) != len(image):
                raise OSError(0, "there is no room for an entry")
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def _find_head(self) -> None:
        entries, digest, whole, size = 0, ORIGIN, 0, 0
        for image in _lines(self.path):
            size += len(image)
            if image.endswith(b"\n"):
                entry = _decoded(image)
                entries = entries + 1 if entry is None else entry.number
                digest, whole = _digest(image), size
        self.head = ChainHead(entries, digest)
        self.cut_bytes = size - whole
        if self.cut_bytes:
            os.ftruncate(self._descriptor, whole)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while image := file.readline(_PIECE):
                yield image
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from error


def _problem(image: bytes, number: int, previous: str) -> str:
    """Why a line is not the entry of that number behind the one of that digest."""
    if not image.endswith(b"\n"):
        return "the last entry is unfinished"
    entry = _decoded(image)
    if entry is None:
        return "this is no entry"
    if entry.previous != previous:
        return "it does not follow from the entry before: one was changed, put in or lost"
    return "" if entry.number == number else f"it says it is number {entry.number}"


def _decoded(image: bytes) -> AuditEntry | None:
    try:
        return msgspec.json.decode(image, type=AuditEntry)
    except msgspec.DecodeError:
        return None


def _digest(image: bytes) -> str:
    return hashlib.sha256(image.removesuffix(b"\n")).hexdigest()


def _unusable(path: Path, error: OSError) -> StoreError:
    sentence = f"{path} cannot be used for the audit: {error.strerror}; {SEE_TO_IT_OR_TURN_IT_OFF}"
    return StoreError(sentence, file=str(path))
