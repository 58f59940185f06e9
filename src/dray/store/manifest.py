"""The manifest: how the storage folder was when the manager let go of it.

`manifest.json` lies beside the storage folder. At a stop it notes every file with its size, its
time of change and, if it is small, its digest; the next start compares. While the manager runs the
manifest says so: after a crash nothing is known of the manager's own files, which it was changing,
but a name that it would never give is a stranger's all the same. It also notes where the folder
was, so that a store that was moved or copied by hand is noticed, and the head of the audit.

It is one JSON object. The last member, `crc32c`, is the checksum of the object without that
member, in eight hexadecimal digits: a flipped bit is damage of the manifest, never a change of
another file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from dray.errors import StoreCorrupt
from dray.model.files import name_as_text
from dray.model.words import counted
from dray.own_files import open_own_existing, replacing
from dray.store.audit import AUDIT_NAME
from dray.store.chain import ORIGIN, ChainReport, verify_chain
from dray.store.decisions import LOG_LOST, LOG_NAME
from dray.store.disk import FOLDER_NAME, LOCK_NAME

MANIFEST_NAME: Final = "manifest.json"
_CHECKSUM: Final = re.compile(rb',"crc32c":"([0-9a-f]{8})"}\n')
DIGESTED_BYTES_MAX: Final = 64 << 10
"""Files of queues, not heap files; those are checked by the checksums of what is in them."""

_OWN: Final = re.compile(
    r"[prjl]\d{7,}\.mq|QMLog|MQ(Trans|InSeqs)\.lg[12]|lqs|quarantine(/.*)?"
    r"|lqs/([0-9a-f]{8}|[0-9a-f]{32})\.[0-9a-f]{8}(\.new)?"
)


class FileMark(msgspec.Struct, frozen=True, array_like=True):
    """Notes on one file; for a folder only that it exists."""

    size: int = 0
    mtime_ns: int = 0
    digest: str = ""
    folder: bool = False


class Identity(msgspec.Struct, frozen=True):
    """The path, the device and the inode of a storage folder."""

    path: str
    device: int
    inode: int


class Manifest(msgspec.Struct, kw_only=True):
    """The whole. `closed` is false while a manager runs, and after it has crashed."""

    version: int = 1
    closed: bool
    identity: Identity
    files: dict[str, FileMark]
    store: bool
    """Whether a store is there, or was at any time before."""
    audit_entries: int = 0
    audit_digest: str = ORIGIN


class Difference(NamedTuple):
    """One change: added, edited or deleted."""

    change: str
    file: str
    detail: str


def is_own_name(name: str) -> bool:
    """Whether a manager gives such a name to a file or folder of its own."""
    return _OWN.fullmatch(name) is not None


def identity_of(data: Path) -> Identity:
    """The present place of the storage folder of a data directory."""
    folder = (data / FOLDER_NAME).resolve()
    status = folder.stat()
    return Identity(name_as_text(str(folder)), status.st_dev, status.st_ino)


def take_stock(data: Path) -> dict[str, FileMark]:
    """Every file and folder in the storage folder, by its name there; but not the lock.

    Bytes of a name that are no UTF-8 stand as escapes, because the manifest is JSON.
    """
    return {name: mark for name, mark in _marks(data / FOLDER_NAME, "") if name != LOCK_NAME}


def strangers_in(data: Path) -> dict[str, FileMark]:
    """The same of files and folders whose names a manager never gives; no others are read."""
    marks = _marks(data / FOLDER_NAME, "", only_strangers=True)
    return {name: mark for name, mark in marks if name != LOCK_NAME}


def differences(before: Mapping[str, FileMark], now: Mapping[str, FileMark]) -> list[Difference]:
    """Changed files, by name."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        was, is_ = before.get(name), now.get(name)
        if was is None and is_ is not None:
            found.append(Difference("added", name, f"{is_.size} bytes"))
        elif is_ is None and was is not None:
            found.append(Difference("deleted", name, f"it had {was.size} bytes"))
        elif was is not None and is_ is not None and was != is_:
            found.append(Difference("edited", name, _what_changed(was, is_)))
    return found


def differences_of_copy(
    before: Mapping[str, FileMark], now: Mapping[str, FileMark]
) -> list[Difference]:
    """As `differences`, for a folder that was copied: all other times of change are one of them."""
    as_before = {
        name
        for name, mark in now.items()
        if name in before
        and msgspec.structs.replace(mark, mtime_ns=before[name].mtime_ns) == before[name]
    }
    later = sum(now[name] != before[name] for name in as_before)
    found = differences(
        {name: mark for name, mark in before.items() if name not in as_before},
        {name: mark for name, mark in now.items() if name not in as_before},
    )
    if later:
        sentence = f"{counted(later, 'file')} of the same size with another time of change"
        found.insert(0, Difference("edited", FOLDER_NAME, sentence))
    return found


def check_not_emptied(now: Mapping[str, FileMark]) -> None:
    """Refuse a folder from which a whole store is gone: most likely a disk is not mounted there.

    Raises StoreCorrupt. A new store in its place would answer for the old one.
    """
    left = [name for name in now if "/" not in name and is_own_name(name) and not now[name].folder]
    if not left:
        raise StoreCorrupt(
            f"event {LOG_LOST}: {LOG_NAME} is missing, like every other file of the store that"
            f" was here before; bring the folder back, or remove {MANIFEST_NAME} to begin a new"
            " store",
            event=LOG_LOST,
            file=LOG_NAME,
        )


def was_moved(before: Identity, now: Identity) -> str:
    """The reason why a folder is elsewhere than it was; nothing if it is where it was."""
    if before.path == now.path and before.inode == now.inode:
        # Numbers of devices change from boot to boot; an inode stays.
        return ""
    if (before.device, before.inode) == (now.device, now.inode):
        return f"it was renamed from {before.path} by hand"
    if before.path == now.path:
        return "it replaced the one that was there before"
    # False as well where this user may not look, or where that disk does not answer.
    if os.path.exists(f"{before.path}/{LOG_NAME}"):
        return (
            f"it was copied from {before.path}, where the original still is; two queue managers"
            " with one id must never both run"
        )
    return f"it was moved from {before.path} by hand; `dray storage move` would have checked it"


def read_manifest(data: Path) -> Manifest | None:
    """The manifest of a data directory; None if there is none. Raises ValueError for any other."""
    try:
        image = (data / MANIFEST_NAME).read_bytes()
    except FileNotFoundError:
        return None
    at = max(image.rfind(b',"crc32c":'), 0)
    checksum, body = _CHECKSUM.fullmatch(image, at), image[:at] + b"}"
    if checksum is None or int(checksum[1], 16) != crc32c(body):
        raise ValueError("its checksum does not fit")
    return msgspec.json.decode(body, type=Manifest)


def _encode(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(manifest)
    return b'%s,"crc32c":"%08x"}\n' % (body[:-1], crc32c(body))


def verify_audit(data: Path) -> ChainReport:
    """Check the audit's chain, and that the manifest does not know a longer one, or another end.

    Raises StoreError if the audit cannot be read.
    """
    report = verify_chain(data / AUDIT_NAME)
    try:
        manifest = read_manifest(data)
    except (OSError, ValueError):
        return report
    if manifest is None or not report.intact:
        return report
    known = manifest.audit_entries
    if report.entries < known:
        sentence = f"the file had {counted(known, 'entry')}, and has {report.entries}"
        return report._replace(line=report.entries + 1, problem=sentence)
    if report.entries == known and report.digest != manifest.audit_digest:
        return report._replace(line=known, problem="the last entry is another one than it was")
    return report


def write_manifest(data: Path, manifest: Manifest) -> None:
    """Put a manifest in place, durably and whole. Raises OSError."""
    replace_file(data / MANIFEST_NAME, _encode(manifest))


def overwrite_manifest(data: Path, manifest: Manifest) -> None:
    """Put a manifest in the place of one that is hardly shorter, where no other file finds room.

    A power failure in the middle leaves one that cannot be read, which is told at the next start.
    Raises OSError.
    """
    image = _encode(manifest)
    descriptor = open_own_existing(data / MANIFEST_NAME)
    try:
        os.pwrite(descriptor, image, 0)
        os.ftruncate(descriptor, len(image))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, image: bytes) -> None:
    """Write a file so that after any crash it is there as it was or as it is. Raises OSError."""
    with replacing(path) as file:
        file.write(image)


def _what_changed(was: FileMark, now: FileMark) -> str:
    if was.size != now.size:
        return f"it had {was.size} bytes and has {now.size}"
    if was.digest != now.digest:
        return f"its {now.size} bytes were changed"
    return f"its {now.size} bytes were written again"


def _marks(
    folder: Path, prefix: str, *, only_strangers: bool = False
) -> Iterator[tuple[str, FileMark]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            name = f"{prefix}{name_as_text(entry.name)}"
            known = only_strangers and is_own_name(name)
            if entry.is_dir(follow_symlinks=False):
                if not known:
                    yield name, FileMark(folder=True)
                # Such as lost+found, where a disk is mounted here: it is root's alone.
                with suppress(PermissionError):
                    yield from _marks(Path(entry.path), f"{name}/", only_strangers=only_strangers)
                continue
            if known:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                # Somebody removed it while this list was made.
                continue
            small = status.st_size <= DIGESTED_BYTES_MAX and entry.is_file(follow_symlinks=False)
            digest = _digest(Path(entry.path)) if small else ""
            yield name, FileMark(status.st_size, status.st_mtime_ns, digest)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
