"""Backup of a queue manager that is stopped: the same archive, read from its data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import crc32c

from dray.errors import StoreCorrupt
from dray.manager.events import Body
from dray.manager.requests import BACKUP_CHECK, BackupRun
from dray.model.backup import BackupReport, Told
from dray.offline.stopped import Offline
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.heap.heap import Extent, file_name
from dray.store.limits import HEAP_FILE_BYTES
from dray.store.reading import HeapReader
from dray.wire.archive import About, ArchiveWriter

_MICROSECONDS = 1_000_000


def back_up_stopped(
    path: str | Path, write: Callable[[bytes], object], told: Told, *, now: float, version: str
) -> BackupReport:
    """Give an archive of the data directory at `path` to `write`.

    Raises StoreLocked if its manager runs, StoreCorrupt if something in it is damaged.
    """
    with Offline(path) as offline:
        state = offline.load()
        run = BackupRun(state)
        for _ in run.prepare(offline.heap):
            pass
        about = About(
            state.manager_id,
            state.name,
            version,
            int(now * _MICROSECONDS),
            run.messages,
            run.record_bytes,
            run.state_bytes,
            HEAP_FILE_BYTES,
        )
        writer = ArchiveWriter(write, about)
        done = 0
        while True:
            piece, body = run.take()
            if not body:
                break
            if piece.runs:
                data = _read(offline.heap, body, piece.checks)
                writer.records(piece.runs, data)
                done += len(data)
                told(done, run.record_bytes)
            else:
                writer.state(b"".join(each for each in body if isinstance(each, bytes)))
        return BackupReport(
            manager_id=state.manager_id,
            name=state.name,
            taken=now,
            messages=run.messages,
            record_bytes=run.record_bytes,
            sha256=writer.end(),
            archive_bytes=writer.bytes_written,
        )


def _read(heap: HeapReader, body: Body, checks: bytes) -> bytes:
    """The bytes of runs, each record checked. Raises StoreCorrupt."""
    runs = [each for each in body if isinstance(each, Extent)]
    data = b"".join([heap.read(run) for run in runs])
    at = 0
    for length, crc in BACKUP_CHECK.iter_unpack(checks):
        if crc32c.crc32c(data[at : at + length]) != crc:
            names = " or ".join(dict.fromkeys(file_name(run.file) for run in runs))
            sentence = f"a record in {names} is damaged; `dray check` says which message it is"
            raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=names)
        at += length
    return data
