"""Tidying: in quiet moments records move to the heap files in which they belong; empty files go.

    what                                         from               to
    copies in journals and dead-letter queues    p files            j files
    any queue's, once room was refused           files mostly dead  other files of their kind

A copy of some size joins its journal where the message lay, because that needs no room, and a small
one if the disk has none to spare (`departures.py`). Later, when nothing has happened for a while,
it is read, checked, written to a journal file, and one fact gives it its new place and lets go of
the old. So p files hold what is in transit and come free with it, and what is kept for long lies
together. A step looks at a bounded number of messages and moves a bounded number of bytes, one
record at least, and whoever comes in between is served first. Messages that join in front of the
reached place, or are held just then, are looked at after the next start.

Heap files that are empty and more than are kept for recycling go back to the file system, some a
step: a large message leaves hundreds behind in one turn.
"""

from __future__ import annotations

from typing import Final

import crc32c

from dray.errors import StoreCorrupt, StoreFull
from dray.manager.context import Context
from dray.manager.entries import lookup_id_of, pack_place, place_in
from dray.manager.facts import Relocated, pack_lookups
from dray.manager.queue import IN_JOURNAL_QUOTA, INTERNAL, StoredQueue
from dray.model.classes import QueueKind
from dray.store.kinds import Kind, kind_of

QUIET_S: Final = 0.5
"""The time without an event before a step is taken."""
STEP_MESSAGES_MAX: Final = 1000
STEP_BYTES: Final = 1 << 20
STEP_FILES: Final = 16
_MOVED_BYTES: Final = 24
"""Bytes of a fact for a moved record: its position and its place, with overhead."""
_SPARSE_SHARE: Final = 4
"""A file is worth emptying when no more than one part in this many is live."""


class Compactor:
    """The queues still to be looked at, and how far each has been."""

    def __init__(self, context: Context) -> None:
        """Begin with every queue that keeps copies."""
        self._context = context
        self._waiting: dict[int, bytes] = {}
        self._reached: dict[int, bytes] = {}
        self._sparse: frozenset[int] = frozenset()
        self._not_before = context.now + QUIET_S
        for queue in context.state.queues:
            self.grown(queue)

    def grown(self, queue: StoredQueue) -> None:
        """Something joined a queue; look through it if it keeps copies."""
        if queue.kind is not QueueKind.PRIVATE and _keeps_copies(queue) and len(queue.index):
            self._waiting.setdefault(queue.number, self._reached.get(queue.number, b""))

    def room_was_refused(self) -> None:
        """Empty the files that hold little."""
        self._sparse = frozenset(self._context.store.sparse_files(_SPARSE_SHARE))
        if self._sparse:
            for queue in self._context.state.queues:
                if queue.number not in INTERNAL:
                    self._waiting[queue.number] = b""

    def disturbed(self) -> None:
        """Somebody wanted something: be quiet for a while."""
        self._not_before = self._context.now + QUIET_S

    def deadline(self) -> float | None:
        """When the next step may be taken, if there is anything to do."""
        wanted = self._waiting or self._context.store.surplus_files
        return self._not_before if wanted else None

    def tick(self) -> None:
        """Take a step if it is quiet."""
        if self._not_before > self._context.now:
            return
        if self._context.store.surplus_files:
            self.disturbed()
            self._context.store.trim(STEP_FILES)
        elif self._waiting:
            self.disturbed()
            if self._context.room.has_said_enough:
                return
            self._step()

    def _step(self) -> None:
        number, after = next(iter(self._waiting.items()))
        queue = self._context.state.queues.get(number)
        if queue is None:
            del self._waiting[number]
            return
        lookups: list[int] = []
        places: list[bytes] = []
        moved = 0
        most = min(STEP_MESSAGES_MAX, self._context.room.portion_bytes // _MOVED_BYTES)
        for looked_at, packed in enumerate(queue.index.from_entry(after)):
            if looked_at == most or moved >= STEP_BYTES:
                self._waiting[number] = after
                break
            place = self._moved(queue, packed)
            if place is not None:
                lookups.append(lookup_id_of(packed))
                places.append(place)
                moved += place_in(packed)[0].length
            after = packed
        else:
            del self._waiting[number]
            self._reached[number] = after
        if lookups:
            self._context.record(Relocated(number, pack_lookups(lookups), b"".join(places)))

    def _moved(self, queue: StoredQueue, packed: bytes) -> bytes | None:
        """Copy a record to where it belongs; its new place, or None if it stays."""
        extent, crc = place_in(packed)
        kind = Kind.JOURNAL if _keeps_copies(queue) else kind_of(extent.file)
        if not extent.length or (kind_of(extent.file) is kind and extent.file not in self._sparse):
            return None
        try:
            record = self._context.store.read(extent)
            if crc32c.crc32c(record) != crc:
                # Damage is told where the message is asked for; a copy of it would be no better.
                return None
            return pack_place(self._context.store.place(record, kind))
        except (StoreCorrupt, StoreFull):
            # It stays where it is, which is never wrong.
            return None


def _keeps_copies(queue: StoredQueue) -> bool:
    return queue.kind is QueueKind.JOURNAL or queue.number in IN_JOURNAL_QUOTA
