"""Puts payload files in place: under safe names, whole or not at all, and again the same.

A name is made from the sequence id, which no two large messages share, and then as much of the
label as is safe, for people. Nothing a sender writes into a label leads out of the directory, hides
a file, makes two messages meet in one file or passes the longest name a file system takes.

The bytes are written beside their place (`.<name>.<chance>.partial`), checked against their digest,
synced, and renamed. A file that is there already, with the right size and digest, is kept: that is
how a batch that is done again after a crash finds what the first attempt had finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from dray.client.files.partial_file import PartialFile
from dray.errors import LargeMessageCorrupt
from dray.large.digests import DIGESTS, Digest
from dray.spark.failure import disk_told

_NAME_BYTES_MAX = 200
"""File systems take 255; `.`, the chance and `.partial` want 26 of them."""
_UNSAFE = re.compile(r"[^\w.\-+@=,() ]+")
_UNSAFE_IN_ID = re.compile(r"[^0-9A-Za-z]+")
PARTIAL_SUFFIX = ".partial"


def payload_name(sequence_id: str, label: str) -> str:
    """The file name of one large message: always the same, and nobody else's."""
    unique = _UNSAFE_IN_ID.sub("-", sequence_id)
    if not re.fullmatch(r"[0-9a-f]{32}\\[0-9]{1,20}", sequence_id):
        # Only a broken or hostile manager gives such an id; the digest keeps the name its own.
        unique = "x" + hashlib.sha256(sequence_id.encode()).hexdigest()[:40]
    readable = _UNSAFE.sub("_", label.replace("\\", "/").rpartition("/")[2]).strip(" .")
    whole = f"{unique}-{readable}" if readable else unique
    return _cut(whole, _NAME_BYTES_MAX)


class PutPayload(NamedTuple):
    """A payload in its place, as an executor tells it; `etag` is empty for a file."""

    name: str
    size: int
    etag: str


class Expected(NamedTuple):
    """The payload that is to come: `digest` hexadecimal, of the named `kind`."""

    size: int
    digest: str
    kind: str

    def check(self, name: str, digest: str, size: int) -> None:
        """Raise `LargeMessageCorrupt` if something else came for the payload called `name`."""
        if size != self.size or digest != self.digest:
            raise LargeMessageCorrupt(
                f"the payload for {name} came with {size} bytes and {self.kind}"
                f" {digest[:16]}..., not {self.size} and {self.digest[:16]}...; nothing was kept",
                sequence_id=name,
            )


class Placement:
    """One payload on its way into its file."""

    etag = ""

    def __init__(self, path: Path, expected: Expected) -> None:
        """Take the place and what is to stand there."""
        self.path = path
        self.expected = expected

    def is_done(self) -> bool:
        """Whether the very payload is in its place already; raises `StoreError`."""
        # `fill` refuses to replace what is no file.
        if not self.path.is_file():
            return False
        with disk_told(self.path), self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != self.expected.size:
                return False
            return file_digest(file, self.expected.kind) == self.expected.digest

    def fill(self, pull: Callable[[PayloadTarget], str]) -> None:
        """Let `pull` write the bytes and give their digest; put them in place if they are right.

        Raises `LargeMessageCorrupt` if they are not, `StoreFull` or `StoreError` for the disk.
        After any error nothing is left behind.
        """
        chance = secrets.token_hex(6)
        partial = self.path.with_name(f".{self.path.name}.{chance}{PARTIAL_SUFFIX}")
        with disk_told(self.path):
            file = PartialFile(self.path, partial=partial)
            try:
                self.expected.check(
                    self.path.name, pull(PayloadTarget(file, partial=file)), file.length()
                )
                # A task syncs the names of all its files together.
                file.finish(sync_name=False)
            except BaseException:
                file.discard()
                raise


class Writable(Protocol):
    """A file as far as a payload is written to it."""

    def write(self, data: memoryview, /) -> int | None:
        """Write some of `data`, and say how much; None is nothing."""
        ...


class PayloadTarget:
    """The file that payload bytes are written to; it counts them.

    `partial` is the file, where it is one: others may write into it instead.
    """

    def __init__(self, file: Writable, *, partial: PartialFile | None = None) -> None:
        """Write to an open `file`."""
        self._file = file
        self.partial = partial
        self.size = 0

    def write(self, data: bytes | memoryview, /) -> None:
        """Write all of `data`."""
        rest = memoryview(data).cast("B")
        self.size += len(rest)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]


def file_digest(file: BinaryIO, kind: str, begun: Digest | None = None) -> str:
    """The digest of a file from where it stands; `begun` has taken in what is before that."""
    digest = hashlib.file_digest(file, lambda: begun or DIGESTS[kind]())  # type: ignore[arg-type, return-value]
    return digest.hexdigest()


def remove_partials(directory: Path, attempt: str = "") -> int:
    """Remove what unfinished attempts, or one, left in a directory; give how many there were."""
    named = f"*{attempt}*" if attempt else "*"
    left = list(directory.glob(f".{named}{PARTIAL_SUFFIX}"))
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def _cut(name: str, bytes_max: int) -> str:
    """Shorten a name to `bytes_max` bytes, its suffix kept where it is a short one."""
    if len(name.encode()) <= bytes_max:
        return name
    suffix = Path(name).suffix
    if len(suffix.encode()) > 16:  # noqa: PLR2004 - longer is no suffix
        suffix = ""
    room = bytes_max - len(suffix.encode())
    return name.encode()[:room].decode(errors="ignore") + suffix
