"""The checkpoints of an open store: when one is due, which one is under way, what is written."""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import StoreFull
from dray.store.heap.heap import Heap
from dray.store.limits import CHECKPOINT_SHORT_BYTES
from dray.store.log.checkpoint import Mark, Snapshots
from dray.store.log.group import DirtyRange
from dray.store.log.qmlog import Log
from dray.store.log.schedule import CheckpointSchedule
from dray.store.recovery.pairs import Pairs
from dray.store.syncing import Checkpoint, Draft, LiveMap, Sync


class StoreCheckpoints:
    """One at a time is under way; it may be written in any thread."""

    def __init__(self, pairs: Pairs, heap: Heap, log: Log, *, wanted: bool) -> None:
        """Begin behind the newest checkpoint; `wanted` makes the next one due now."""
        self._pairs = pairs
        self._heap = heap
        self._log = log
        self._schedule = CheckpointSchedule()
        self._schedule.opened(pairs.newest.lsn, log, wanted=wanted)
        self._under_way: Checkpoint | None = None
        self.due_at = 0
        """The next one is due when the log's `head` has come here."""
        self.has_room_until = 0
        """While the log's `stated_bytes` are no more, the next one has its room."""
        self.are_long = False
        """Whether one takes so long to write that large copies should not bring it nearer."""
        self._follow()
        self.written = 0
        """How many were written since the store was opened."""

    @property
    def under_way(self) -> bool:
        """Whether one was begun and has not ended."""
        return self._under_way is not None

    def wants_copies(self, ranges: list[DirtyRange], *, lone: bool) -> bool:
        """Whether the next group is to have copies of dirty ranges, for which it has room."""
        # Copies bring the next checkpoint nearer, and take no room that facts need until it ends.
        log = self._log
        return log.head < self.due_at and log.takes_copies(ranges, little=not lone or self.are_long)

    def have_room(self, fact_bytes: int) -> None:
        """Reserve the room of the next one, with so many bytes of facts more. Raises StoreFull.

        Empty heap files give their room to it, as many as it takes: no message needs it more.
        """
        length = self._pairs.newest.length + self._schedule.growth(self._log, fact_bytes)
        try:
            while not self._has_room(length):
                pass
        finally:
            self._follow()

    def _has_room(self, length: int) -> bool:
        """Whether there is room; if not, one empty heap file less. Raises StoreFull without any."""
        try:
            self._pairs.have_room(length)
        except StoreFull:
            if not self._heap.give_back_one():
                raise
            return False
        return True

    def _follow(self) -> None:
        """Take up figures that are asked for with every message, and change here only."""
        length = self._pairs.newest.length
        self.due_at = self._schedule.due_at
        self.has_room_until = self._schedule.stated_until(self._pairs.room - length)
        self.are_long = length > CHECKPOINT_SHORT_BYTES

    def draft(self, snapshots: Snapshots | Iterable[bytes]) -> tuple[list[Draft], LiveMap]:
        """The parts of one, before the facts that wait are written as a group."""
        *writers, map_file = self._pairs.writers()
        halves = snapshots if isinstance(snapshots, Snapshots) else Snapshots(snapshots)
        drafts = [Draft(*each) for each in zip(writers, halves, strict=True)]
        return drafts, LiveMap(map_file, self._pairs.next_generation(), self._heap.live_blocks())

    def begin(self, draft: tuple[list[Draft], LiveMap], sync: Sync) -> Checkpoint:
        """Begin one: it covers the log up to its head, and the facts that wait."""
        drafts, live_map = draft
        log = self._log
        mark = Mark(
            "",
            generation=live_map.generation,
            lsn=log.head,
            facts=log.facts_appended,
            capacity=log.capacity,
            length=0,
            epoch=log.epoch,
            waiting=log.pending,
        )
        self._schedule.begun(log)
        self._under_way = Checkpoint(sync, drafts, mark, live_map)
        return self._under_way

    def end(self, checkpoint: Checkpoint) -> None:
        """It ran; if the disk had room, the log before the older one of the pairs is free."""
        self._under_way = None
        if checkpoint.refused is not None:
            self._heap.give_back_one()
            self._schedule.refused(self._log)
            self._follow()
            return
        self._pairs.written(checkpoint.marks)
        self._log.tail = self._pairs.tail
        self._schedule.written(self._pairs.newest.lsn, self._log)
        self._follow()
        self.written += 1

    def give_up(self) -> None:
        """The one under way will not be written; the pair in use stands as it was."""
        self._under_way = None
