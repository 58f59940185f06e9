"""The state file of an upload that can be resumed: its id and its source.

The state file is JSON. It is there, durably, before the upload begins and is removed when the
large message is committed, so whoever finds one knows that there is something to ask about:

    {"version": 1, "sequence_id": "...", "queue": "...", "source": {...}}

`source` also lies at the queue manager, so that an upload can be resumed by its id alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dray.client.files.steps import reached
from dray.errors import Misuse, SourceChanged, TargetUnwritable
from dray.own_files import replacing

if TYPE_CHECKING:
    from dray.client.files.sources import AwaitedChunkSource, Source
    from dray.wire.large_frames import UploadIs

VERSION = 1
_MICROSECONDS = 1_000_000


class UploadOrigin(msgspec.Struct, frozen=True):
    """The source of a body, and its cut; -1 and "" for what a source does not know."""

    said: str
    """A digest of what is said of the message besides its body."""
    fragment_size: int
    digest_kind: str
    size: int = -1
    path: str = ""
    modified_ns: int = -1
    inode: int = -1


class UploadNote(msgspec.Struct, frozen=True):
    """The state file."""

    version: int
    sequence_id: str
    queue: str
    source: UploadOrigin


class UnfinishedUpload(msgspec.Struct, frozen=True):
    """An upload that can be resumed by its sequence id; bytes, and seconds since the epoch."""

    sequence_id: str
    path: str
    """The source of its body; empty if that has no name."""
    bytes_done: int
    bytes_total: int | None
    begun_time: float
    used_time: float
    queue: str = ""
    """Its destination."""


def unfinished_from(listed: UploadIs) -> UnfinishedUpload:
    """An unfinished upload, as a queue manager lists it."""
    origin = decode_origin(bytes(listed.source))
    return UnfinishedUpload(
        listed.sequence_id,
        origin.path,
        listed.size,
        None if origin.size < 0 else origin.size,
        listed.begun_us / _MICROSECONDS,
        listed.used_us / _MICROSECONDS,
        listed.queue,
    )


def origin_of(
    source: Source | AwaitedChunkSource, said: str, fragment_size: int, digest_kind: str
) -> UploadOrigin:
    """Note where a body is from."""
    known: os.stat_result | None = getattr(source, "before", None)
    path: Path | None = getattr(source, "path", None)
    size = source.size
    if known is None or path is None:
        return UploadOrigin(said, fragment_size, digest_kind, size)
    where = str(path.absolute())
    if size < 0:
        # Reading changes the properties of a pipe or a device, so its bytes are compared.
        return UploadOrigin(said, fragment_size, digest_kind, size, where)
    return UploadOrigin(
        said, fragment_size, digest_kind, size, where, known.st_mtime_ns, known.st_ino
    )


def encode_origin(origin: UploadOrigin) -> bytes:
    """As it is kept at the queue manager."""
    return msgspec.json.encode(origin)


def decode_origin(data: bytes) -> UploadOrigin:
    """Read what was kept; raises `Misuse` if another version of Dray has written it."""
    try:
        return msgspec.json.decode(data, type=UploadOrigin)
    except msgspec.MsgspecError as error:
        raise Misuse(
            f"another version of Dray began the upload: {error}; resume it with that version"
        ) from error


def check_same(before: UploadOrigin, now: UploadOrigin) -> None:
    """Raise `SourceChanged` or `Misuse` where an upload cannot be gone on with."""
    cut = ("said", "fragment_size", "digest_kind")
    if any(getattr(before, name) != getattr(now, name) for name in cut):
        raise Misuse(
            "the unfinished upload has other properties, or another fragment size or digest;"
            " repeat the earlier ones, or drop the upload (`dray upload drop`, or"
            " drop_unfinished) and send again"
        )
    if before != now:
        raise changed(now.path or "the source")


def changed(path: str) -> SourceChanged:
    """Say that a source is not what it was when its upload began."""
    return SourceChanged(
        f"{path} changed after its upload began; nothing of it was committed, so drop the upload"
        " (`dray upload drop`, or drop_unfinished) and send it again",
        path=path,
    )


class UploadStateFile:
    """The state file of one upload. Every method raises `TargetUnwritable`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> UploadNote | None:
        """The content; None if there is no file. Raises `Misuse` if it is no state file."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            note = msgspec.json.decode(data, type=UploadNote)
        except msgspec.MsgspecError as error:
            raise Misuse(f"{self.path} is not the state of an upload: {error}") from error
        if note.version != VERSION:
            raise Misuse(f"{self.path} is of version {note.version}, this is {VERSION}")
        return note

    def write(self, note: UploadNote) -> None:
        """Replace it, durably."""
        try:
            fresh = self.path.with_name(self.path.name + ".partial")
            with replacing(self.path, fresh, synced=lambda: reached("state-written")) as file:
                file.write(msgspec.json.format(msgspec.json.encode(note)))
        except OSError as error:
            raise self._unwritable(error) from error
        reached("state-named")

    def remove(self) -> None:
        """Remove it: what it spoke of is done."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        reached("state-removed")

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return TargetUnwritable(
            f"the state file {self.path} cannot be used: {error.strerror or error}; name another",
            path=str(self.path),
        )
