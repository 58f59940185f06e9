"""The checkpoints of an open store: when one is due, which one is under way, what is written.

When the next one is due, and how large it may be, is counted in bytes of the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import StoreFull
from dray.store.heap.heap import Heap
from dray.store.limits import (
    CHECKPOINT_SHORT_BYTES,
    LOG_CHECKPOINT_SHARE,
    LOG_RETRY_SHARE,
    STATE_BESIDE_BYTES,
    STATE_PER_FACTS,
)
from dray.store.log.checkpoint import Mark, Snapshots
from dray.store.log.group import DirtyRange
from dray.store.log.qmlog import Log
from dray.store.recovery.pairs import Pairs
from dray.store.syncing import Checkpoint, Draft, LiveMap, Sync


class StoreCheckpoints:
    """One at a time is under way; it may be written in any thread."""

    def __init__(self, pairs: Pairs, heap: Heap, log: Log, *, wanted: bool) -> None:
        """Begin behind the newest checkpoint; `wanted` makes the next one due now.

        It is wanted while a checkpoint may be the only one of its pair, or the last is not whole.
        """
        self._pairs = pairs
        self._heap = heap
        self._log = log
        # The part of the log's `stated_bytes` in the newest checkpoint and in the one under way.
        # At first no less than the facts that were followed beyond the newest.
        self._stated_in_newest, self._stated_in_next = pairs.newest.lsn - log.head, 0
        self._under_way: Checkpoint | None = None
        self.due_at = 0 if wanted else self._after_newest()
        """The next one is due when the log's `head` has come here."""
        self.has_room_until: int
        """While the log's `stated_bytes` are no more, the next one has its room."""
        self.are_long: bool
        """Whether one takes so long to write that large copies should not bring it nearer."""
        self._follow()
        self.written = 0
        """The number written since the store was opened."""

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
        stated = self._log.stated_bytes - self._stated_in_newest + fact_bytes
        growth = int(stated * STATE_PER_FACTS) + STATE_BESIDE_BYTES
        length = self._pairs.newest.length + growth
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

    def _after_newest(self) -> int:
        return self._pairs.newest.lsn + self._log.capacity // LOG_CHECKPOINT_SHARE

    def _follow(self) -> None:
        """Take up figures that are asked for with every message, and change here only."""
        length = self._pairs.newest.length
        room = self._pairs.room - length - STATE_BESIDE_BYTES
        self.has_room_until = self._stated_in_newest + int(room // STATE_PER_FACTS)
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
        # It contains the facts that are stated by now.
        self._stated_in_next = log.stated_bytes
        self._under_way = Checkpoint(sync, drafts, mark, live_map)
        return self._under_way

    def end(self, checkpoint: Checkpoint) -> None:
        """It ran; if the disk had room, the log before the older one of the pairs is free."""
        self._under_way = None
        if checkpoint.refused is not None:
            self._heap.give_back_one()
            # It is tried again after some more facts.
            self.due_at = self._log.head + self._log.capacity // LOG_RETRY_SHARE
            return
        self._pairs.written(checkpoint.marks)
        self._log.tail = self._pairs.tail
        self._stated_in_newest = self._stated_in_next
        self.due_at = self._after_newest()
        self._follow()
        self.written += 1

    def give_up(self) -> None:
        """The one under way will not be written; the pair in use stands as it was."""
        self._under_way = None
