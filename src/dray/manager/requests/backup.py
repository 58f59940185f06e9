"""Backup of a running manager: a moment between two turns, read while traffic goes on.

The moment is the turn that takes the request: the state is taken as for a checkpoint, and every
heap file with a live record is pinned, so that nothing that was there then is overwritten before it
was read. The slow work, to encode the state and to list the places of all records, is done in
portions with the next ticks; then the request is answered. The client draws the pieces one at a
time and makes the archive of them (`wire/archive.py`); here nothing is read, compressed or waited
for, the daemon sends records from the heap files as it does for receivers. A file is let go once
all that was wanted of it has gone out. The first answer waits for the sync of everything before the
moment, so an archive never holds what a crash could still undo.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Final, NamedTuple

import crc32c

from dray.errors import DrayError, Misuse, StoreCorrupt
from dray.manager.change import QUARANTINE
from dray.manager.context import Context
from dray.manager.entries import claims_in, entries_in, place_in, place_of, split_tails
from dray.manager.events import Body
from dray.manager.queue import Records
from dray.manager.session import Session
from dray.manager.state import State, take_snapshots
from dray.manager.works import Works
from dray.model.limits import BACKUP_PIECE_BYTES, BACKUP_PIECE_RECORDS
from dray.store.heap.heap import Extent, file_name
from dray.store.heap.heap_file import missing_file
from dray.store.kinds import KIND_AT, Kind
from dray.wire.archive import pack_runs
from dray.wire.backup_frames import Backup, BackupBegun, BackupPiece, BackupRead

_PLACE: Final = struct.Struct(">III")
"""Offset, length, CRC32C: packed so that they sort, and take 12 bytes each."""
BACKUP_CHECK: Final = struct.Struct("<II")
_PORTION_RECORDS: Final = 2_048
"""Places that are listed in one tick, in two or three milliseconds."""


class _RecordsTaken(NamedTuple):
    """The records at one moment, in data that nobody changes."""

    entries: list[bytes]
    """Packed entries, any number in one piece."""
    tails: list[bytes]
    """The same of records that are in no queue yet."""
    aside: list[bytes]
    """Entries of what is in quarantine."""


class BackupRun:
    """One backup under way."""

    def __init__(self, state: State) -> None:
        """Take the state as it is now; `prepare` has to be run through before anything else."""
        self._snapshots = take_snapshots(state)
        self._taken = _taken(state)
        self._state: deque[bytes] = deque()
        self._places: dict[int, bytearray] = {}
        self._unread: deque[int] = deque()
        self._file = 0
        self._reading: deque[bytes] = deque()
        self.messages = self.record_bytes = self.state_bytes = 0
        self.files: deque[int] = deque()
        """Heap files that are still wanted, in the order in which they will be read."""
        self.is_prepared = False
        """For a backup of a running manager: whether pieces can be asked for."""

    def prepare(self, records: Records) -> Iterator[None]:
        """Write down and list what was taken, a portion between two of what this gives.

        A record in quarantine has a wrong checksum: it is read from `records`. Raises
        `StoreCorrupt` if it cannot be.
        """
        yield from self._write_down()
        for extent, crc in self._claims(records):
            if extent.file >> KIND_AT == Kind.EXPRESS:
                continue
            places = self._places.setdefault(extent.file, bytearray())
            places += _PLACE.pack(extent.offset, extent.length, crc)
            self.record_bytes += extent.length
            self.messages += 1
            if self.messages % _PORTION_RECORDS == 0:
                yield
        self.files.extend(sorted(self._places))
        self._unread.extend(self.files)

    def passed(self) -> list[int]:
        """Heap files of which all has been taken; each is given once."""
        wanted = self._file if self._reading else next(iter(self._unread), None)
        done = []
        while self.files and self.files[0] != wanted:
            done.append(self.files.popleft())
        return done

    def take(self) -> tuple[BackupPiece, Body]:
        """The next piece; an empty one when all has been taken."""
        if self._state:
            return BackupPiece(), (self._state.popleft(),)
        runs: list[Extent] = []
        checks: list[bytes] = []
        total = 0
        while len(checks) < BACKUP_PIECE_RECORDS and (self._reading or self._unread):
            if not self._reading:
                self._read_on()
            offset, length, crc = _PLACE.unpack(self._reading[0])
            if total and total + length > BACKUP_PIECE_BYTES:
                break
            self._reading.popleft()
            total += length
            checks.append(BACKUP_CHECK.pack(length, crc))
            last = runs[-1] if runs else None
            if last is not None and (last.file, last.offset + last.length) == (self._file, offset):
                runs[-1] = last._replace(length=last.length + length)
            else:
                runs.append(Extent(self._file, offset, length))
        return BackupPiece(pack_runs(runs), b"".join(checks)), tuple(runs)

    def _read_on(self) -> None:
        self._file = self._unread.popleft()
        packed, size = bytes(self._places.pop(self._file)), _PLACE.size
        places = [packed[at : at + size] for at in range(0, len(packed), size)]
        self._reading.extend(sorted(places))

    def _write_down(self) -> Iterator[None]:
        image = bytearray()
        for piece in self._snapshots.joined():
            image += piece
            while len(image) >= BACKUP_PIECE_BYTES:
                self._state.append(bytes(image[:BACKUP_PIECE_BYTES]))
                del image[:BACKUP_PIECE_BYTES]
                yield
        if image:
            self._state.append(bytes(image))
        self.state_bytes = sum(map(len, self._state))

    def _claims(self, records: Records) -> Iterator[tuple[Extent, int]]:
        for packed in self._taken.entries:
            yield from claims_in(packed)
        for packed in self._taken.tails:
            yield from map(place_of, split_tails(packed))
        for packed in self._taken.aside:
            extent, _ = place_in(packed)
            yield extent, crc32c.crc32c(records.read(extent))


def _taken(state: State) -> _RecordsTaken:
    taken = _RecordsTaken([], [], [])
    for queue in state.queues:
        pages, others = queue.index.copied()
        if queue.number == QUARANTINE:
            taken.aside.extend(each for page in (*pages, *others) for each in entries_in(page))
        else:
            taken.entries.extend((*pages, *others))
    for prepared in state.prepared.values():
        taken.tails.extend(tails for _, tails in prepared.sends)
    # A restored store knows nothing of uploads, so their parts are of no use to it.
    return taken


class Backups:
    """The backups that are under way."""

    def __init__(self, works: Works) -> None:
        self.context = works.context
        self._works = works
        self.runs: dict[int, BackupRun] = {}
        """By session."""
        self._pinned: frozenset[int] = frozenset()
        """Files that are pinned for the backup that is being prepared."""

    def handle_begin(self, session: Session, request_id: int, _head: Backup) -> None:
        """Fix the moment."""
        context = self.context
        if self.runs:
            raise Misuse("another backup of this queue manager is under way; wait for its end")
        run = self.runs[session.number] = BackupRun(context.state)
        self._pinned = frozenset(context.store.live_files())
        for file in self._pinned:
            context.store.pin(file)
        self._works.carry_on(self._prepare(session, run), (session, request_id))

    def _prepare(
        self, session: Session, run: BackupRun
    ) -> Generator[bool, None, BackupBegun | None]:
        """Work: write down and list what was taken; each portion takes its time."""
        context, pinned, taken_us = self.context, self._pinned, self.context.now_us
        try:
            for _ in chain(_check_readable(context), run.prepare(context.store)):
                yield True
                if self.runs.get(session.number) is not run:
                    # Its client is gone.
                    return None
            lost = [file for file in run.files if file not in pinned]
            if lost:
                raise missing_file(lost[0])
        except DrayError:
            self.end(session)
            raise
        for file in pinned.difference(run.files):
            context.store.unpin(file)
        run.is_prepared = True
        return _begun(context, run, taken_us)

    def handle_read(self, session: Session, request_id: int, _head: BackupRead) -> None:
        """Give the next piece. Its bytes are durable and pinned, so it waits for no sync."""
        context = self.context
        run = self.runs.get(session.number)
        if run is None or not run.is_prepared:
            raise Misuse("a piece of a backup was asked for, and no backup is under way; begin one")
        for file in run.passed():
            context.store.unpin(file)
        piece, body = run.take()
        if not body:
            del self.runs[session.number]
        context.answer(session, request_id, piece, body, held=False)

    def end(self, session: Session) -> None:
        """Let go of everything that a backup still held, because its client is gone."""
        run = self.runs.pop(session.number, None)
        if run is not None:
            for file in run.files if run.is_prepared else self._pinned:
                self.context.store.unpin(file)


def _check_readable(context: Context) -> Iterator[None]:
    """Refuse if there are messages that the start could not read."""
    for queue in list(context.state.queues):
        for packed in list(queue.index.aside_entries()):
            extent, _ = place_in(packed)
            try:
                context.store.read(extent)
            except StoreCorrupt as error:
                raise StoreCorrupt(
                    f"{file_name(extent.file)} is missing or was cut off, and {queue.name!r} has"
                    " messages in it; bring the file back and start again, or purge that queue to"
                    " give them up",
                    event=error.event,
                    file=error.file,
                ) from error
            yield


def _begun(context: Context, run: BackupRun, taken_us: int) -> BackupBegun:
    return BackupBegun(
        context.state.manager_id,
        context.state.name,
        context.config.version,
        taken_us,
        run.messages,
        run.record_bytes,
        run.state_bytes,
        context.store.heap_file_bytes,
    )
