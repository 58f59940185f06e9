"""`dray storage move`: the store of a stopped manager goes to another directory or file system.

    1  lock the old place                         nobody else is in it
    2  new/moving.json                            nobody takes the copy for a store
    3  copy each file; sync it; read it back      the checksums must fit
    4  audit and manifest of the new place        it says where it comes from
    5  old/moved.json                             THE MOMENT: the new place is the store
    6  take new/moving.json away
    7  take the old files away

Each step is durable before the next begins. A crash before 5 leaves the old place the store, and
the next `move` begins the copy anew; after 5 the new place is the store, and the next `move` or
start ends what is left (`location`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from dray.errors import StoreCorrupt, StoreError, StoreFull
from dray.fsync import sync_folder
from dray.model.files import is_utf8
from dray.own_files import create_own, make_own_folder
from dray.store.access_log import ACCESS_NAMES
from dray.store.audit import AUDIT_NAME, AuditLog
from dray.store.decisions import LOG_NAME
from dray.store.disk import FOLDER_NAME, LOCK_NAME, MESSAGE_FILE_UNREADABLE, NO_ROOM
from dray.store.location import MOVED_NAME, MOVING_NAME, Moved, Moving, read_mark
from dray.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    identity_of,
    read_manifest,
    replace_file,
    take_stock,
    write_manifest,
)
from dray.store.real_disk import RealDisk

_PIECE: Final = 1 << 20
_BESIDE: Final = (AUDIT_NAME, *ACCESS_NAMES, MANIFEST_NAME)
"""Files of a store beside its folder."""

Progress = Callable[[str, int, int], None]
"""Called with what is done next, and how many bytes of how many are copied."""


class StoreMove(NamedTuple):
    """A move: source, target, name and time."""

    source: Path
    target: Path
    name: str
    when: float


class MoveReport(NamedTuple):
    """The result. `finished` if an earlier move had happened and only its end was missing."""

    files: int
    bytes: int
    finished: bool


def move_store(move: StoreMove, progress: Progress) -> MoveReport:
    """Move a store. Raises StoreLocked, StoreFull, StoreCorrupt, or StoreError with the reason."""
    move = move._replace(source=move.source.absolute(), target=move.target.absolute())
    if not (is_utf8(str(move.source)) and is_utf8(str(move.target))):
        raise StoreError("the marks of a move need paths in UTF-8; rename the directory")
    try:
        return _finished(move, progress) or _moved(move, progress)
    except OSError as error:
        sentence = f"{error.filename or move.target}: {error.strerror}"
        if error.errno in NO_ROOM:
            sentence = f"there is no room for the store at {sentence}; free some space there"
            raise StoreFull(sentence, file="") from error
        sentence = f"the move did not end: {sentence}; mend that and run the same move again"
        raise StoreError(sentence) from error


def _finished(move: StoreMove, progress: Progress) -> MoveReport | None:
    """End a move that had happened."""
    moved = read_mark(move.source / MOVED_NAME, Moved)
    if moved is None:
        return None
    if Path(moved.to) != move.target:
        raise StoreError(
            f"the store of {move.source} was moved before, to {moved.to}; move it from there"
        )
    if not (move.target / FOLDER_NAME / LOG_NAME).exists():
        further = read_mark(move.target / MOVED_NAME, Moved)
        if further is not None:
            raise StoreError(
                f"the store of {move.source} was moved to {move.target} before, and from there to"
                f" {further.to}; move it from there"
            )
        raise StoreError(
            f"the store of {move.source} was moved to {move.target}, but there is none any more;"
            " bring it back there, or restore a backup; what is left in the old place is kept"
        )
    _end(move, moved.move, progress)
    return MoveReport(0, 0, finished=True)


def _moved(move: StoreMove, progress: Progress) -> MoveReport:
    if not (move.source / FOLDER_NAME / LOG_NAME).exists():
        raise StoreError(f"there is no store in {move.source}; name the directory of `dray serve`")
    nested = move.source.resolve() in (target := move.target.resolve(), *target.parents)
    if nested or target in move.source.resolve().parents:
        raise StoreError(f"{move.target} and {move.source} overlap; choose another directory")
    disk = RealDisk(move.source)
    disk.lock()
    try:
        _check_files(move.source / FOLDER_NAME)
        _prepare(move, progress)
        report = _copy(move, progress)
        _tell(move, progress)
        progress("switching", report.bytes, report.bytes)
        moment = datetime.fromtimestamp(move.when, UTC).isoformat(timespec="seconds")
        moved = Moved(to=str(move.target), move=move.name, when=moment)
        replace_file(move.source / MOVED_NAME, msgspec.json.encode(moved) + b"\n")
        _end(move, move.name, progress)
        return report
    finally:
        disk.close()


def _check_files(storage: Path) -> None:
    """Raise StoreError for what cannot be copied byte by byte, before a byte is copied."""
    for path in sorted(storage.rglob("*")):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise StoreError(
                f"{path} is neither a file nor a folder, and a move copies nothing else; put the"
                " file that it leads to in its place, or remove it, and run the same move again"
            )


def _prepare(move: StoreMove, progress: Progress) -> None:
    """Make the new place, empty but for the mark that it is not finished."""
    progress("preparing", 0, 0)
    unfinished = read_mark(move.target / MOVING_NAME, Moving)
    if unfinished is not None and Path(unfinished.source) != move.source:
        raise StoreError(
            f"{move.target} holds an unfinished copy of {unfinished.source}; end that move, or"
            f" remove {move.target}"
        )
    if unfinished is None and not _is_free(move.target):
        raise StoreError(f"{move.target} is not empty; choose an empty or a new directory")
    make_own_folder(move.target)
    sync_folder(move.target.parent)
    moving = Moving(source=str(move.source), move=move.name)
    replace_file(move.target / MOVING_NAME, msgspec.json.encode(moving) + b"\n")
    (move.target / MOVED_NAME).unlink(missing_ok=True)
    if (move.target / FOLDER_NAME).exists():
        shutil.rmtree(move.target / FOLDER_NAME)
    for name in _BESIDE:
        (move.target / name).unlink(missing_ok=True)
    sync_folder(move.target)


def _is_free(target: Path) -> bool:
    """Whether nothing is in a directory, or only what a store left behind that was moved away."""
    if not target.exists():
        return True
    moved = (target / MOVED_NAME).exists()
    left = {MOVED_NAME, FOLDER_NAME, AUDIT_NAME, *ACCESS_NAMES} if moved else set()
    storage = target / FOLDER_NAME
    inside = {path.name for path in storage.iterdir()} if storage.exists() else set()
    return {path.name for path in target.iterdir()} <= left and inside <= {LOCK_NAME}


def _copy(move: StoreMove, progress: Progress) -> MoveReport:
    names = list(_files(move.source))
    sizes = {name: (move.source / name).stat().st_size for name in names}
    total, done = sum(sizes.values()), 0
    free = shutil.disk_usage(move.target).free
    if free < total:
        sentence = (
            f"the store has {total} bytes and {move.target} has room for {free}; free some space"
            " there, or choose another"
        )
        raise StoreFull(sentence, file="")
    folders = {(move.target / name).parent for name in names} | {move.target / FOLDER_NAME}
    for folder in sorted(folders):
        make_own_folder(folder)
    for name in names:
        progress(name, done, total)
        _copy_file(move.source / name, move.target / name)
        done += sizes[name]
    for folder in folders:
        sync_folder(folder)
    sync_folder(move.target)
    before, after = take_stock(move.source), take_stock(move.target)
    files = {name: mark for name, mark in before.items() if not mark.folder}
    if files != {name: mark for name, mark in after.items() if not mark.folder}:
        raise StoreError(f"the files in {move.source} changed while they were copied; try again")
    return MoveReport(len(names), total, finished=False)


def _files(data: Path) -> Iterator[str]:
    folder = data / FOLDER_NAME
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / LOCK_NAME:
            yield str(path.relative_to(data))
    for name in _BESIDE:
        if (data / name).exists():
            yield name


def _copy_file(source: Path, target: Path) -> None:
    """Copy with the time of change, and read back what the disk has."""
    crc = 0
    fresh = os.fdopen(create_own(target), "wb", buffering=0)
    with fresh as new, source.open("rb", buffering=0) as old:
        while piece := old.read(_PIECE):
            crc = crc32c(piece, crc)
            view = memoryview(piece)
            while view:
                view = view[new.write(view) :]
        status = os.fstat(old.fileno())
        os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(new.fileno())
        # Synced bytes can be dropped from memory, so that the disk itself is read.
        os.posix_fadvise(new.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    found = 0
    with target.open("rb", buffering=0) as new:
        while piece := new.read(_PIECE):
            found = crc32c(piece, found)
    if found != crc:
        sentence = f"{target} differs from {source}; the disk may be bad: choose another"
        raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=target.name)


def _tell(move: StoreMove, progress: Progress) -> None:
    """Let the audit say so, and the manifest know the new place."""
    progress("noting", 0, 0)
    try:
        manifest = read_manifest(move.target)
    except ValueError:
        manifest = None
    with closing(AuditLog(move.target)) as audit:
        known = manifest is not None and audit.head == (
            manifest.audit_entries,
            manifest.audit_digest,
        )
        audit.append(
            "moved",
            FOLDER_NAME,
            seen="command",
            now=move.when,
            detail=f"from {move.source} by `dray storage move`",
        )
        here = identity_of(move.target)
        if manifest is None:
            files = take_stock(move.target)
            manifest = Manifest(closed=True, identity=here, files=files, store=True)
        manifest.identity = here
        if known or not manifest.audit_entries:
            manifest.audit_entries, manifest.audit_digest = audit.head
        write_manifest(move.target, manifest)


def _end(move: StoreMove, name: str, progress: Progress) -> None:
    """The new place is the store: let it be one, and leave only marks in the old place."""
    progress("ending", 0, 0)
    moving = read_mark(move.target / MOVING_NAME, Moving)
    if moving is not None and moving.move == name:
        (move.target / MOVING_NAME).unlink()
        sync_folder(move.target)
    progress("cleaning", 0, 0)
    storage = move.source / FOLDER_NAME
    for path in sorted(storage.rglob("*"), reverse=True) if storage.exists() else ():
        if path.name == LOCK_NAME and path.parent == storage:
            continue
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    (move.source / MANIFEST_NAME).unlink(missing_ok=True)
    sync_folder(move.source)
