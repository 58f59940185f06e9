"""The file of each checkpoint pair to keep, and the one to write next.

Both pairs are written together, the file of each that is not in use. So whatever happens while they
are written, the two in use stay, and the log is kept back to the older file of each, so that one
damaged file of each pair may be missed (S3-15).
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import StoreFull
from dray.store.decisions import LogState
from dray.store.disk import Disk, File
from dray.store.heap.maps import MAP_NAMES, map_name
from dray.store.heap.witness import note_end
from dray.store.limits import CHECKPOINT_AHEAD_SHARE, CHECKPOINT_BYTES, SECTOR_BYTES
from dray.store.log.checkpoint import (
    NAMES,
    ORIGIN,
    PAIRS,
    SEQUENCES,
    TRANSACTIONS,
    Mark,
    SnapshotWriter,
    birth_mark,
)
from dray.store.recovery.recovery import Replay
from dray.store.recovery.survey import Survey

Pair = tuple[str, ...]


class Pairs:
    """The four checkpoint files and the two maps, open."""

    def __init__(self, disk: Disk) -> None:
        """Begin before recovery."""
        self._disk = disk
        self._files: dict[str, File] = {}
        self._generation = 0
        self._newest: dict[Pair, Mark] = dict.fromkeys(PAIRS, ORIGIN)
        self._older: dict[Pair, Mark] = dict.fromkeys(PAIRS, ORIGIN)
        self.room = 0
        """Bytes of state that both files of MQTrans have room for already."""

    def open(self, found: Survey, replay: Replay) -> None:
        """Go on with what recovery used; make files that are missing. Raises StoreFull."""
        for name in (*NAMES, *MAP_NAMES):
            self._files[name] = self._disk.open(name, size=CHECKPOINT_BYTES)
        for name in found.seen.unheaded:
            self._files[name].write(birth_mark(name), 0)
        self._measure()
        self._generation = max([mark.generation for mark in found.seen.marks], default=0)
        for pair, used in replay.used.items():
            older = [mark for mark in found.whole(pair) if mark.generation < used.generation]
            self._newest[pair] = used
            if older:
                self._older[pair] = older[0]
            else:
                self._older[pair] = used if found.seen.log.state is LogState.LATER else ORIGIN

    def have_room(self, length: int) -> None:
        """See to it that either file of MQTrans can take a state of so many bytes.

        Raises StoreFull if the disk has no room for it.
        """
        if length <= self.room:
            return
        try:
            self._extend(length + max(CHECKPOINT_BYTES, length // CHECKPOINT_AHEAD_SHARE))
        except StoreFull:
            self._extend(length)
        finally:
            self._measure()

    def _measure(self) -> None:
        self.room = min(self._files[name].size() for name in TRANSACTIONS) - SECTOR_BYTES

    def _extend(self, length: int) -> None:
        for name in TRANSACTIONS:
            self._disk.open(name, size=SECTOR_BYTES + length).close()

    @property
    def newest(self) -> Mark:
        """The checkpoint of the state that counts."""
        return self._newest[TRANSACTIONS]

    @property
    def tail(self) -> int:
        """The log is needed from here on, should one file of each pair be damaged."""
        return min(mark.lsn for mark in self._older.values())

    @property
    def complete(self) -> bool:
        """Whether every fact is in the log or in both of the newest snapshots."""
        return not any(mark.waiting for mark in self._newest.values())

    @property
    def files(self) -> list[File]:
        """All files, to be synced or closed."""
        return list(self._files.values())

    def writers(self) -> tuple[SnapshotWriter, SnapshotWriter, File]:
        """For the next generation: of state, of incoming sequences, and the file for its map."""
        state, sequences = (self._writer(pair) for pair in (TRANSACTIONS, SEQUENCES))
        return state, sequences, self._files[map_name(self._generation + 1)]

    def note_end(self, lsn: int) -> None:
        """Note in the map that is not to be written next that the log is durable up to `lsn`."""
        note_end(self._files[map_name(self._generation)], lsn)

    def next_generation(self) -> int:
        """The number of the checkpoint that is being begun."""
        return self._generation + 1

    def written(self, marks: Iterable[Mark]) -> None:
        """The files of one generation are durable."""
        state, sequences = marks
        for pair, mark in ((TRANSACTIONS, state), (SEQUENCES, sequences)):
            self._older[pair], self._newest[pair] = self._newest[pair], mark
            self._generation = mark.generation

    def _writer(self, pair: Pair) -> SnapshotWriter:
        name = pair[self._newest[pair].name == pair[0]]
        return SnapshotWriter(self._files[name])
