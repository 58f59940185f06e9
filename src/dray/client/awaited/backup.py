"""Makes an archive of a queue manager that is running: asks piece by piece, checks, packs, writes.

The pieces come as they lie in heap files; checksums and compression are this side's work, so that
the queue manager goes on with its own. A file appears under its name only when it is whole and
durable, in place of an older backup of that name.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from dray.checksum import crc32c
from dray.client.connections.connection import Connection
from dray.client.connections.runtime import Runtime
from dray.client.files.partial_file import hold
from dray.errors import ProtocolError, StoreCorrupt, TargetUnwritable
from dray.model.backup import BackupReport
from dray.own_files import open_own_existing, replacing
from dray.wire.archive import RUN, About, ArchiveWriter
from dray.wire.backup_frames import Backup, BackupBegun, BackupPiece, BackupRead
from dray.wire.stream import Frame

_CHECK: Final = struct.Struct("<II")
_MESSAGE_FILE: Final = 2083
_DRAWN_BYTES: Final = 4
_DRAWN: Final = r"[0-9]+\.[0-9a-f]{8}\.part"
"""Process and drawn number: processes of two containers on one disk may have the same id."""
Told = Callable[[int, int], object]


async def back_up(
    connection: Connection, runtime: Runtime, target: str | Path | BinaryIO, told: Told
) -> BackupReport:
    """Write a backup to a file, or to something that is open for writing bytes.

    `told` hears how many bytes of records are done, of how many.
    """
    if isinstance(target, str | Path):
        async with runtime.within(whole_or_absent(Path(target))) as file:
            return await _draw(connection, runtime, file.write, told)
    return await _draw(connection, runtime, target.write, told)


@contextmanager
def whole_or_absent(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete and durable, and leaves nothing otherwise.

    If its process is killed, the next one for the same path removes what it has left.
    """
    try:
        _check_kind(path)
        _remove_abandoned(path)
        drawn = f"{os.getpid()}.{secrets.token_hex(_DRAWN_BYTES)}"
        with replacing(path, path.with_name(f".{path.name}.{drawn}.part")) as file:
            hold(file.fileno())
            yield file
    except OSError as error:
        reason = error.strerror or error
        sentence = f"{path} cannot be written: {reason}; mend that, or name another file"
        raise TargetUnwritable(sentence, path=str(path)) from error


def _check_kind(path: Path) -> None:
    """Refuse to take its name from a directory, or from a device such as /dev/null."""
    if path.exists() and not path.is_file():
        kind = "a directory" if path.is_dir() else "no regular file"
        raise TargetUnwritable(
            f"{path} is {kind}; name a file, or write the backup to - and redirect it",
            path=str(path),
        )


def _remove_abandoned(path: Path) -> None:
    """Remove the parts of backups to this path that no process holds any more."""
    part = re.compile(re.escape(f".{path.name}.") + _DRAWN)
    for each in path.parent.iterdir():
        if not part.fullmatch(each.name):
            continue
        # A part that others own or that is gone by now does not keep a backup from being made.
        with suppress(OSError), os.fdopen(open_own_existing(each), "rb") as file:
            if hold(file.fileno()):
                each.unlink()


async def _draw(
    connection: Connection, runtime: Runtime, write: Callable[[bytes], object], told: Told
) -> BackupReport:
    begun = await connection.ask(Backup(), BackupBegun)
    about = About(
        begun.manager_id,
        begun.name,
        begun.version,
        begun.taken_us,
        begun.messages,
        begun.record_bytes,
        begun.state_bytes,
        begun.heap_file_bytes,
    )
    writer = ArchiveWriter(write, about)
    done = 0
    while True:
        frame = await connection.call(BackupRead(), BackupPiece)
        if not frame.body:
            break
        done += await runtime.offload(_add, writer, frame)
        told(done, begun.record_bytes)
        connection.give_back(frame.body)
    return BackupReport(
        manager_id=begun.manager_id,
        name=begun.name,
        taken=begun.taken_us / 1e6,
        messages=begun.messages,
        record_bytes=begun.record_bytes,
        sha256=await runtime.offload(writer.end),
        archive_bytes=writer.bytes_written,
    )


def _add(writer: ArchiveWriter, frame: Frame) -> int:
    """Put one piece into the archive; give the bytes of records in it."""
    head = frame.head
    assert isinstance(head, BackupPiece)
    if not head.runs:
        writer.state(frame.body)
        return 0
    _check(head, frame.body)
    writer.records(head.runs, frame.body)
    return len(frame.body)


def _check(head: BackupPiece, body: memoryview) -> None:
    """Raise `StoreCorrupt` rather than archive a record whose checksum does not fit."""
    at = 0
    for length, crc in _CHECK.iter_unpack(head.checks):
        if crc32c(body[at : at + length]) != crc:
            name = _file_at(head.runs, at)
            raise StoreCorrupt(
                f"event {_MESSAGE_FILE}: a record in {name} is damaged, so there is no backup;"
                " `dray check` says which message it is",
                event=_MESSAGE_FILE,
                file=name,
            )
        at += length
    if at != len(body):
        raise ProtocolError("a piece of a backup is not as long as its records")


def _file_at(runs: bytes, at: int) -> str:
    for file, offset, length in RUN.iter_unpack(runs):
        if at < length:
            return f"heap file {file} at byte {offset + at}"
        at -= length
    return "a heap file"
