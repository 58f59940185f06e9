"""The manifest of a run: which files it sent, with the size and the digest of each.

    {"path":"a/b.txt","size":12,"digest":"blake3:5d0c..."}      one line of JSON for each file
    {"path":"a/b.txt","bytes":"Y2Fm6Q==",...}                   a path that is no UTF-8, as base64

The receiver of the files compares a directory with it.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dray.client.calls.public_calls import checked
from dray.client.files.sources import source_of
from dray.errors import InvalidConfiguration, SourceUnreadable
from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS, hashed_file
from dray.model.files import is_plain_path
from dray.model.limits import MIB

MANIFEST_NAME: Final = "dray-manifest"
_PIECE_BYTES: Final = 4 * MIB


class ManifestEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of a manifest."""

    path: str
    size: int
    digest: str
    """Kind and value: `blake3:` or `sha256:`, and hexadecimal digits."""
    bytes: str = ""
    """The path in base64, if it is no UTF-8."""

    @property
    def name(self) -> str:
        """The path as the file system gives it."""
        return os.fsdecode(base64.b64decode(self.bytes)) if self.bytes else self.path


class FileDifference(NamedTuple):
    """A file of a manifest that a directory does not have as it was sent, and why."""

    path: str
    reason: str


def entry_of(path: str, body: object) -> ManifestEntry:
    """Read a body for its entry; raises `SourceChanged` and `SourceUnreadable`."""
    hashed, size = DIGESTS[DIGEST_KIND_DEFAULT](), 0
    pieces = source_of(body, None, awaited=False).pieces(_PIECE_BYTES)
    assert isinstance(pieces, Iterator), "a blocking reader asked for it"
    for piece in pieces:
        hashed.update(piece)
        size += len(piece)
    raw = os.fsencode(path)
    shown = raw.decode("utf-8", "backslashreplace")
    in_bytes = "" if shown.encode() == raw else base64.b64encode(raw).decode("ascii")
    return ManifestEntry(shown, size, f"{DIGEST_KIND_DEFAULT}:{hashed.hexdigest()}", in_bytes)


def lines_of(entries: Iterable[ManifestEntry]) -> bytes:
    """The text of a manifest."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in entries)


@checked
def verify(
    directory: str | os.PathLike[str], manifest: str | os.PathLike[str]
) -> list[FileDifference]:
    """Compare a directory with a manifest; give the files that are not there as they were sent.

    Files that the manifest does not name are of no interest. Raises `SourceUnreadable` if the
    manifest cannot be read, and `InvalidConfiguration` if it is none.
    """
    root = Path(directory)
    # A name that no file can have is no directory either.
    if not os.path.isdir(root):  # noqa: PTH112
        raise InvalidConfiguration(f"{root} is not a directory; name the directory to look into")
    return [
        FileDifference(entry.name, reason)
        for entry in entries_of(Path(manifest))
        if (reason := _why_different(root, entry))
    ]


def entries_of(manifest: Path) -> Iterator[ManifestEntry]:
    """Read a manifest; raises as `verify` does."""
    try:
        lines = manifest.read_bytes().splitlines()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SourceUnreadable(
            f"{manifest} cannot be read: {why}; name a manifest",
            path=str(manifest),
        ) from error
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line, type=ManifestEntry)
            kind = entry.digest.partition(":")[0]
            base64.b64decode(entry.bytes, validate=True)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidConfiguration(
                f"line {number} of {manifest} is no entry of a manifest: {error}; name a file that"
                " `dray send --manifest` has sent"
            ) from error
        if kind not in DIGESTS:
            raise InvalidConfiguration(
                f"line {number} of {manifest} has a digest of the unknown kind {kind!r}; use a"
                " newer Dray"
            )
        yield entry


def _why_different(root: Path, entry: ManifestEntry) -> str:
    """Why a file is not what was sent; "" if it is."""
    if not is_plain_path(entry.name):
        return "its path leads out of the directory"
    file = root / entry.name
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file"
        if found.st_size != entry.size:
            return f"it has {found.st_size} bytes, and {entry.size} were sent"
        kind, _, digest = entry.digest.partition(":")
        if _digest_of(file, kind) != (digest, entry.size):
            return "its contents are not those that were sent"
    except (FileNotFoundError, NotADirectoryError):
        return "it is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return ""


def _digest_of(file: Path, kind: str) -> tuple[str, int]:
    """The digest of a file in hexadecimal, and how many bytes it had; raises OSError."""
    with file.open("rb") as opened:
        return hashed_file(opened, kind).hexdigest(), opened.tell()
