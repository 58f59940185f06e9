"""How a store is opened: its log is replayed, its files are opened, a new epoch begins.

`recovery` finds out what counts, and changes nothing. Here the first new bytes are written, in an
order that a crash may interrupt anywhere (docs/explanation/recovery.md, "Before the first new
byte"): what recovery relied on is made durable, then the opening group says that a new epoch began.
"""

from __future__ import annotations

from contextlib import closing
from itertools import groupby

from dray.store.decisions import LOG_NAME, Act
from dray.store.disk import LOCK_NAME, Disk, File
from dray.store.heap.heap import Heap
from dray.store.heap.maps import MAP_NAMES
from dray.store.heap.witness import forget_end, note_end
from dray.store.kinds import file_name
from dray.store.limits import SECTOR_BYTES
from dray.store.log.group import OPENING
from dray.store.log.qmlog import Chain, Log
from dray.store.recovery.pairs import Pairs
from dray.store.recovery.recovery import Load, RecoveryReport, Replay
from dray.store.recovery.survey import Survey


class StoreOpening:
    """One start of a store, behind the decision that it starts."""

    def __init__(
        self, disk: Disk, found: Survey, heap: Heap, *, pairs: Pairs, capacity: int
    ) -> None:
        """Open what was `found` on `disk`, with a log of `capacity` bytes."""
        self._disk = disk
        self._found = found
        self._heap = heap
        self._pairs = pairs
        self._capacity = capacity
        self.files: list[File] = []
        """Open files, to be closed whether `run` ended well or not."""
        self.checkpoint_is_wanted: bool
        """Whether a file of a pair is damaged or missing, or the last checkpoint is not whole."""

    def run(self, load: Load) -> tuple[Log, File, RecoveryReport]:
        """Rebuild the owner's state, then begin. Raises StoreCorrupt, StoreFull, StorePoisoned.

        Gives the log, the file in which its durable end is noted, and what was found and done.
        """
        fresh = self._found.row.act is Act.FRESH
        # One that is to be made is made whole or not at all.
        log_file = self._opened(LOG_NAME, self._capacity if fresh else 0)
        replay = Replay(self._disk, self._found, log_file, self._capacity)
        chain = replay.run(load)
        replay.check_heap()
        self._put_back(replay)
        self._heap.restore(replay.occupied)
        log_file = self._opened(LOG_NAME, self._capacity)
        self._pairs.open(self._found, replay)
        log = Log(
            log_file,
            capacity=self._capacity,
            head=chain.end,
            tail=self._pairs.tail,
            next_fact=chain.next_fact,
            epoch=chain.epoch + 1,
        )
        log.heap_file_bytes = self._heap.file_bytes
        witness = self._opened(LOCK_NAME, SECTOR_BYTES)
        if fresh:
            for name in (LOCK_NAME, *MAP_NAMES):
                forget_end(self._disk, name)
        self._make_durable(log, chain)
        _begin_epoch(log)
        note_end(witness, log.durable)
        witness.sync()
        seen = self._found.seen
        self.checkpoint_is_wanted = bool(
            replay.damaged or seen.missing or seen.cut or not self._pairs.complete
        )
        return log, witness, replay.report(chain, log.epoch)

    def _opened(self, name: str, size: int) -> File:
        file = self._disk.open(name, size=size)
        self.files.append(file)
        return file

    def _put_back(self, replay: Replay) -> None:
        """Write the bytes that only the log has to where they belong."""
        for number, lacking in groupby(replay.lacking(), key=lambda each: each[0].file):
            with closing(self._disk.open(file_name(number))) as file:
                for extent, image in lacking:
                    file.write(image, extent.offset)

    def _make_durable(self, log: Log, chain: Chain) -> None:
        # After a kill the newest groups may be in the page cache only; nothing may be built on
        # them, nor may the new epoch vouch for them, before they are on the disk.
        # Nor does a later start look for copies of what this one leaves in the heap.
        newest = {each.file for s in chain.suspects for each in s.ranges}
        for number in sorted(newest.union(chain.copies.files)):
            # Nothing live was in one that is not there.
            if self._disk.exists(file_name(number)):
                with closing(self._disk.open(file_name(number))) as file:
                    file.sync()
        for file in (log.file, *self._pairs.files):
            file.sync()
        self._disk.sync_directory()


def _begin_epoch(log: Log) -> None:
    # Without room for it, `fits` asks for a checkpoint first, which carries the epoch as well.
    if log.write_mark(OPENING):
        log.file.sync()
        log.durable = log.head
