"""The state of a manager that is stopped, read from its data directory without changing a byte."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Self

import crc32c

from dray.delivery.events import DeliverySettings
from dray.errors import DrayError, StoreCorrupt, StoreError
from dray.manager.entries import Entry
from dray.manager.facts import Restored, decode_fact
from dray.manager.state import State, replay
from dray.store.decisions import LOG_NAME, Act, LogState
from dray.store.heap.heap import Extent
from dray.store.heap.maps import MAP_NAMES, Disagreement
from dray.store.log.checkpoint import ORIGIN, PAIRS, TRANSACTIONS, Mark, read_snapshot
from dray.store.log.qmlog import Chain, LogReader
from dray.store.reading import HeapReader, ReadOnlyDisk
from dray.store.recovery.recovery import History, Replay, doubts
from dray.store.recovery.survey import Survey, survey
from dray.wire.record import read_header


class Offline:
    """A stopped manager, held still while it is looked at; a context manager."""

    def __init__(self, path: str | Path) -> None:
        """Lock the data directory at `path`. Raises StoreLocked, StoreError."""
        self.disk = ReadOnlyDisk(path)
        self.disk.lock()
        self.heap = HeapReader(self.disk)
        self.state = State(DeliverySettings())
        self.doubts: list[str] = []
        """Sentences about the bytes that the next start will cut off at the end of the log."""
        self.disagreements: list[Disagreement] = []
        """The blocks for which the map of live blocks and the state differ."""
        self.aside: frozenset[Extent] = frozenset()
        """Records that cannot be read at all: a start puts them into quarantine."""
        self.unused_maps: tuple[str, ...] = ()
        """Maps that are damaged, and that nobody needs."""
        self.refusal: StoreCorrupt | None = None
        """Why a start refuses although the state is known: no message file is there."""
        self.log_breaks_at: int | None = None
        """The byte of the log behind which it does not lead to the newest checkpoint."""
        self.chain: Chain
        self.capacity = 0
        self.oldest = ORIGIN
        """The older whole checkpoint: where what the log tells begins."""

    def load(self) -> State:
        """Rebuild the state as a start would. Raises StoreCorrupt for what a start would refuse."""
        found = survey(self.disk)
        self.capacity = found.seen.log.capacity
        if found.row.act is Act.FRESH:
            sentence = (
                f"{self.disk.path} has no queue manager yet: it was never started; run `dray serve`"
                " there first"
            )
            raise StoreError(sentence, directory=str(self.disk.path))
        with closing(self.disk.open(LOG_NAME)) as log:
            run = Replay(self.disk, found, log, self.capacity)
            self.chain = run.run(self._rebuild)
            for extent, image in run.lacking():
                self.heap.lay_over(extent, image)
            self.log_breaks_at = _break_before(run.mark, found, LogReader(log, self.capacity))
        try:
            run.check_heap()
        except StoreCorrupt as error:
            self.refusal = error
        self.aside = frozenset(run.quarantined)
        self.unused_maps = tuple(name for name in run.damaged if name in MAP_NAMES)
        self.doubts = doubts(run.cuts, unfinished=run.unfinished)
        self.disagreements = run.disagreements
        whole = found.whole(TRANSACTIONS)
        self.oldest = whole[-1] if whole else ORIGIN
        if found.seen.log.state is LogState.ORIGIN and not self._began_by_restore():
            self.oldest = ORIGIN
        return self.state

    def oldest_snapshot(self) -> bytes | None:
        """The state of the older checkpoint; none if the log tells everything."""
        return read_snapshot(self.disk, self.oldest) if self.oldest.name else None

    def source_of(self, entry: Entry) -> str | None:
        """The manager that made a message, by its record; None if that is no longer there."""
        try:
            record = self.heap.read(entry.extent)
            if crc32c.crc32c(record) != entry.crc:
                return None
            return read_header(record).source.hex()
        except DrayError:
            # Not there is an answer: its place was used again, or it is damaged.
            return None

    def close(self) -> None:
        """Let go of everything."""
        self.heap.close()
        self.disk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _began_by_restore(self) -> bool:
        """Whether the log's first fact tells of a state that only checkpoints have."""
        with closing(self.disk.open(LOG_NAME)) as log:
            reader = LogReader(log, self.capacity)
            first = next(reader.facts(reader.chain(0, 0, 0), 0), None)
        return first is not None and isinstance(decode_fact(first), Restored)

    def _rebuild(self, history: History) -> Iterable[tuple[Extent, int]]:
        self.state = replay(State(DeliverySettings()), history)
        return self.state.live()


def _break_before(newest: Mark, found: Survey, reader: LogReader) -> int | None:
    """The byte at which the log of the time before the newest checkpoint breaks off.

    No start needs it as long as that checkpoint is whole. None if it leads there, or if the file
    that would begin there cannot be used itself.
    """
    olders: list[Mark] = []
    for pair in PAIRS:
        whole = [mark for mark in found.whole(pair) if mark.generation < newest.generation]
        if not whole and any(name in (*found.seen.damaged, *found.seen.missing) for name in pair):
            return None
        olders += whole[:1] or [ORIGIN]
    older = min(olders, key=lambda mark: mark.lsn)
    end = reader.chain(older.lsn, older.facts, older.epoch).end
    return end % reader.capacity if end < newest.lsn else None
