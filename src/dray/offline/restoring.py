"""Restore: a backup becomes a data directory, whole and checked, or nothing at all.

    1. the archive is read into a folder beside the wanted one, each piece checked as it comes
    2. state as a checkpoint pair, heap bytes at their old places, and one fact: `Restored`
    3. everything is synced and checked as `dray check` would (`checking.py`)
    4. the folder gets its name

Queues, messages, positions and ids are what they were. Every number that may have been given out
after the backup was taken is skipped, by time, so that none is used twice. Outgoing streams know
that they are old copies and ask before they send (`delivery/outgoing.py`); of transactions that
are not remembered as committed nothing can be said any more.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from dray.delivery.events import DeliverySettings
from dray.errors import DrayError, Misuse, SourceUnreadable, StoreError
from dray.fsync import sync_folder
from dray.manager.facts import Restored, encode_fact
from dray.manager.state import State, replay
from dray.model.backup import BackupReport, Told, unheard
from dray.offline.checking import check_store
from dray.store.disk import File
from dray.store.heap.heap import file_name
from dray.store.limits import LOG_BYTES
from dray.store.log.checkpoint import Snapshots
from dray.store.real_disk import RealDisk
from dray.store.recovery.recovery import History
from dray.store.store import Store
from dray.wire.archive import ArchiveReader, Run

SUFFIX: Final = ".restoring"
_OPEN_FILES_MAX: Final = 32
_MICROSECONDS: Final = 1_000_000


def restore(
    archive: str | Path | BinaryIO,
    path: str | Path,
    *,
    now: float,
    told: Told | None = None,
    log_bytes: int = LOG_BYTES,
) -> BackupReport:
    """Make a data directory at `path`, which must be missing or empty, from an archive.

    Raises BackupDamaged, and then nothing is there that was not there before.
    """
    wanted = Path(path).absolute()
    _check_free(wanted)
    making = _Making(int(now * _MICROSECONDS), told or unheard, log_bytes)
    if not isinstance(archive, str | Path):
        return _restore(archive, "the archive", wanted, making)
    try:
        with Path(archive).open("rb") as file:
            return _restore(file, str(archive), wanted, making)
    except OSError as error:
        reason = error.strerror or error
        sentence = f"{archive} cannot be read: {reason}; mend that, or name another archive"
        raise SourceUnreadable(sentence, path=str(archive)) from error


class _Making(NamedTuple):
    """The parameters of the making of a data directory."""

    now_us: int
    told: Told
    log_bytes: int


def _restore(file: BinaryIO, name: str, wanted: Path, making: _Making) -> BackupReport:
    reader = ArchiveReader(file.read, name)
    building = wanted.with_name(wanted.name + SUFFIX)
    disk = _claim(building)
    try:
        _make_store(disk, reader, making)
        _fill_heap(disk, reader, making.told)
        _check(building, reader)
        disk.close()
        _rename(building, wanted)
    except BaseException:
        disk.close()
        shutil.rmtree(building, ignore_errors=True)
        raise
    about = reader.about
    return BackupReport(
        manager_id=about.manager_id,
        name=about.name,
        taken=about.taken_us / _MICROSECONDS,
        messages=about.messages,
        record_bytes=about.record_bytes,
        archive_bytes=reader.bytes_read,
        sha256=reader.sha256,
    )


def _check_free(wanted: Path) -> None:
    try:
        with os.scandir(wanted) as entries:
            occupied = next(iter(entries), None) is not None
    except FileNotFoundError:
        return
    except NotADirectoryError:
        occupied = True
    if occupied:
        raise Misuse(f"{wanted} is not empty; restore into a directory that is empty or missing")


def _claim(building: Path) -> RealDisk:
    """A folder of our own to build in; what a killed restore left there is removed."""
    try:
        disk = RealDisk(building)
        disk.lock()
        disk.close()
        shutil.rmtree(building)
    except OSError as error:
        sentence = f"{building} cannot be used to restore in: {error.strerror}; name another place"
        raise StoreError(sentence, directory=str(building)) from error
    return RealDisk(building)


def _make_store(disk: RealDisk, reader: ArchiveReader, making: _Making) -> None:
    """Make log and checkpoints of a store that has the state, and knows where it is from."""
    image = reader.state()
    state = State(DeliverySettings())
    try:
        replay(state, History.of(Snapshots.parted(image)))
    except (msgspec.MsgspecError, DrayError, LookupError, ValueError, StopIteration) as error:
        raise reader.damaged(f"its state cannot be read: {error}") from error
    if state.manager_id != reader.about.manager_id:
        raise reader.damaged("its state belongs to another queue manager than its header names")
    store = Store(disk, heap_file_bytes=reader.about.heap_file_bytes, log_bytes=making.log_bytes)
    store.recover(lambda _history: ())
    # Both files of each pair, because the log does not tell how this state came to be.
    store.checkpoint(Snapshots.parted(image))
    store.checkpoint(Snapshots.parted(image))
    taken_us = reader.about.taken_us
    store.append(encode_fact(Restored(taken_us, state.restored_at(making.now_us, taken_us))))
    store.close()


def _fill_heap(disk: RealDisk, reader: ArchiveReader, told: Told) -> None:
    """Put every record where it was."""
    size, done = reader.about.heap_file_bytes, 0
    files: dict[int, File] = {}
    for run in reader.runs():
        _write(disk, files, run, size)
        done += len(run.data)
        told(done, reader.about.record_bytes)
    _settle(files)
    disk.sync_directory()


def _write(disk: RealDisk, files: dict[int, File], run: Run, size: int) -> None:
    file = files.get(run.file)
    if file is None:
        if len(files) >= _OPEN_FILES_MAX:
            _settle(files)
        file = files[run.file] = disk.open(file_name(run.file), size=size)
    file.write(run.data, run.offset)


def _settle(files: dict[int, File]) -> None:
    for file in files.values():
        file.sync()
        file.close()
    files.clear()


def _check(building: Path, reader: ArchiveReader) -> None:
    report = check_store(building)
    if not report.clean or report.messages != reader.about.messages:
        found = next((each.what for each in report.findings), "messages are missing")
        raise reader.damaged(f"the store in it is not whole: {found}")


def _rename(building: Path, wanted: Path) -> None:
    with suppress(FileNotFoundError):
        wanted.rmdir()
    building.rename(wanted)
    sync_folder(wanted.parent)
