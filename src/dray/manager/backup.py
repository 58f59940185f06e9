"""Backup of a running manager: a moment between two turns, read while traffic goes on.

The moment is the turn that takes the request: the state is written down as for a checkpoint, and
every heap file with a live record is pinned, so that nothing that was there then is overwritten
before it was read. The client draws the pieces one at a time and makes the archive of them
(`wire/archive.py`); here nothing is read, compressed or waited for, the daemon sends records from
the heap files as it does for receivers. A file is let go once all that was wanted of it has gone
out. The first answer waits for the sync of everything before the moment, so an archive never holds
what a crash could still undo.
"""

from __future__ import annotations

import struct
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Final

from dray.errors import Misuse, ProtocolError
from dray.manager.events import Body
from dray.manager.quarantine import places_for_backup
from dray.model.limits import BACKUP_PIECE_BYTES, BACKUP_PIECE_RECORDS
from dray.store.heap import Extent
from dray.wire.archive import RUN
from dray.wire.backup_frames import Backup, BackupBegun, BackupPiece, BackupRead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dray.manager.context import Context, Session

_PLACE: Final = struct.Struct(">IIII")
"""File, offset, length, CRC32C: packed so that they sort, and take 16 bytes each."""
CHECK: Final = struct.Struct("<II")


class BackupRun:
    """One backup under way, for the session that asked for it."""

    def __init__(self, snapshot: Iterable[bytes], live: Iterable[tuple[Extent, int]]) -> None:
        """Take the state and the places of all records, as they are now."""
        self._state = deque(_sliced(b"".join(snapshot)))
        self.state_bytes = sum(map(len, self._state))
        self._places = b"".join(sorted(_PLACE.pack(*extent, crc) for extent, crc in live))
        self._at = 0
        self.messages = len(self._places) // _PLACE.size
        self.record_bytes = sum(length for _, _, length, _ in self._rest())
        self.files = [file for file, _ in groupby(self._rest(), key=lambda place: place[0])]
        """Heap files that are still wanted, in the order in which they will be read."""

    def passed(self) -> list[int]:
        """Heap files of which all has been taken; each is given once."""
        current = next((place[0] for place in self._rest()), None)
        keep = self.files.index(current) if current is not None else len(self.files)
        done, self.files = self.files[:keep], self.files[keep:]
        return done

    def take(self) -> tuple[BackupPiece, Body]:
        """The next piece; an empty one when all has been taken."""
        if self._state:
            return BackupPiece(), (self._state.popleft(),)
        runs: list[Extent] = []
        checks: list[bytes] = []
        total = 0
        for file, offset, length, crc in self._rest():
            if len(checks) == BACKUP_PIECE_RECORDS:
                break
            if total and total + length > BACKUP_PIECE_BYTES:
                break
            total += length
            checks.append(CHECK.pack(length, crc))
            last = runs[-1] if runs else None
            if last is not None and (last.file, last.offset + last.length) == (file, offset):
                runs[-1] = last._replace(length=last.length + length)
            else:
                runs.append(Extent(file, offset, length))
        self._at += len(checks) * _PLACE.size
        packed = b"".join([RUN.pack(*run) for run in runs])
        return BackupPiece(packed, b"".join(checks)), tuple(runs)

    def _rest(self) -> Iterator[tuple[int, int, int, int]]:
        for at in range(self._at, len(self._places), _PLACE.size):
            yield _PLACE.unpack_from(self._places, at)


def handle_backup(context: Context, session: Session, request_id: int, _head: Backup) -> None:
    """Fix the moment."""
    if any(each.backup is not None for each in context.sessions.values()):
        raise Misuse("another backup of this queue manager is under way; wait for its end")
    state, store = context.state, context.store
    run = session.backup = BackupRun(state.snapshot().joined(), places_for_backup(state, store))
    for file in run.files:
        store.pin(file)
    begun = BackupBegun(
        state.manager_id,
        state.name,
        context.config.version,
        context.now_us,
        run.messages,
        run.record_bytes,
        run.state_bytes,
        store.heap_file_bytes,
    )
    context.answer(session, request_id, begun)


def handle_backup_read(
    context: Context, session: Session, request_id: int, _head: BackupRead
) -> None:
    """Give the next piece. Its bytes are durable and pinned, so it waits for no sync."""
    run = session.backup
    if run is None:
        raise ProtocolError("a piece of a backup was asked for, and no backup is under way")
    for file in run.passed():
        context.store.unpin(file)
    piece, body = run.take()
    if not body:
        session.backup = None
    context.answer(session, request_id, piece, body, held=False)


def end_backup(context: Context, session: Session) -> None:
    """Let go of everything that a backup still held, because its client is gone."""
    run, session.backup = session.backup, None
    for file in run.files if run is not None else ():
        context.store.unpin(file)


def _sliced(state: bytes) -> Iterator[bytes]:
    for at in range(0, len(state), BACKUP_PIECE_BYTES):
        yield state[at : at + BACKUP_PIECE_BYTES]
