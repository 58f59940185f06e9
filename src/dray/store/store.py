"""The store: payload in heap files, facts in the log, state in checkpoints, one sync for a turn.

Theory of operation. The owner places payload (`place`), states facts about it (`append`) and asks
for both to be made durable together: `begin_sync` writes the waiting facts as one group, `run`
syncs heap files and log in whatever thread, `end_sync` makes it known. Heap bytes and log record
go to the disk in no particular order; the group names the heap ranges it relies on, and recovery
checks those before it believes a group that nobody can have been told about. A group with little
payload has a copy of it, and then only the log is synced; a checkpoint syncs the heap files.

    owner's thread     place  append  release   begin_sync            end_sync -> speak
    any thread                                             run (sync)

Several syncs may be under way at once: a later one covers again whatever an earlier one has not
ended, so each alone is enough for everything written before it began. The first failure poisons
the store (`guard`). Before `checkpoint_due` the owner need not think of checkpoints at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.errors import StoreFull, StorePoisoned
from dray.store.checkpoints import StoreCheckpoints
from dray.store.counters import StoreCounters
from dray.store.decisions import LOG_NAME, Act
from dray.store.disk import Disk, File
from dray.store.guard import GuardedDisk, Health
from dray.store.heap.heap import Heap
from dray.store.heap.heap_file import Capture, Extent
from dray.store.heap.releases import Releases
from dray.store.heap.witness import note_end
from dray.store.limits import EXPRESS_BYTES, HEAP_FILE_BYTES, LOG_BYTES, LOG_BYTES_MIN, SECTOR_BYTES
from dray.store.log.checkpoint import Snapshots
from dray.store.log.group import SEAL, DirtyRange
from dray.store.log.qmlog import Log
from dray.store.lqs import QueueFiles
from dray.store.recovery.opening import StoreOpening
from dray.store.recovery.pairs import Pairs
from dray.store.recovery.recovery import Load, RecoveryReport
from dray.store.recovery.survey import survey
from dray.store.syncing import Checkpoint, Sync, reached_of


class Store:
    """One storage folder, open in one process."""

    def __init__(
        self,
        disk: Disk,
        *,
        heap_file_bytes: int = HEAP_FILE_BYTES,
        log_bytes: int = LOG_BYTES,
        queue_files: bool = False,
        express_bytes: int = EXPRESS_BYTES,
        rebuild: bool = False,
    ) -> None:
        """Take the folder behind `disk`; `log_bytes` counts only when the store is made.

        So many bytes of express messages stay in memory, the rest goes to r files.
        With `queue_files` each queue has its text file (`lqs`), which syncs keep up to date.
        With `rebuild` a log that has everything stands in for checkpoints that are gone.
        """
        assert log_bytes >= LOG_BYTES_MIN
        assert log_bytes % SECTOR_BYTES == 0
        self._health = Health()
        self._disk = GuardedDisk(disk, self._health)
        self.queue_files = QueueFiles(self._disk) if queue_files else None
        self._rebuild = rebuild
        self.log_capacity = log_bytes
        """Bytes of QMLog, known for certain when it is replayed."""
        self._heap = heap = Heap(self._disk, heap_file_bytes, express_bytes=express_bytes)
        self.place, self.discard, self.trim = heap.place, heap.free, heap.trim
        """Payload: write it, drop what no fact ever named, and give empty files back."""
        self.read, self.read_into = heap.read, heap.read_into
        self.pin, self.unpin = heap.pin, heap.unpin
        self.descriptor, self.opener, self.in_memory = heap.descriptor, heap.opener, heap.in_memory
        self.live_files, self.sparse_files = heap.live_files, heap.sparse_files
        self._log: Log
        self._witness: File
        self._opened_files: list[File] = []
        self._pairs = Pairs(self._disk)
        self._checkpoints: StoreCheckpoints
        self._free_seen: int | None = None
        self._releases = Releases(self._heap)
        self._handed_out: dict[str, Capture] = {}
        self._facts_durable: int
        self._marked_at: int
        self.waiting_bytes = 0
        """Bytes of the facts that wait for the next group."""
        self._open = False
        self._syncs = self._groups = 0

    # ------------------------------------------------------------------------------- opening

    def recover(self, load: Load) -> RecoveryReport:
        """Lock the folder and rebuild the owner's state through `load`.

        `load(history)` rebuilds from nothing (it may be called again with fewer facts) and gives
        every live extent with its CRC32C. Raises StoreLocked, StoreCorrupt, StoreFull.
        """
        self._disk.lock()
        try:
            return self._recover(load)
        except BaseException:
            self._close_files()
            raise

    def _recover(self, load: Load) -> RecoveryReport:
        found = survey(self._disk, rebuild=self._rebuild)
        if found.row.act is not Act.FRESH:
            self.log_capacity = found.seen.log.capacity
        opening = StoreOpening(
            self._disk, found, self._heap, pairs=self._pairs, capacity=self.log_capacity
        )
        self._opened_files = opening.files
        self._log, self._witness, self.report = opening.run(load)
        self._facts_durable = self._log.next_fact
        self._marked_at = self._log.head
        self._checkpoints = StoreCheckpoints(
            self._pairs, self._heap, self._log, wanted=opening.checkpoint_is_wanted
        )
        self._open = True
        return self.report

    def serve(self) -> None:
        """The owner begins to decide: from here on a file that may not be opened ends the store."""
        self._health.serving = True

    # ------------------------------------------------------------------------------- writing

    def append(self, fact: bytes) -> None:
        """State a fact; all facts stated between two `begin_sync` are one group, all or nothing."""
        self.waiting_bytes = self._log.append(fact)

    def have_checkpoint_room(self, fact_bytes: int) -> None:
        """See to it that the next checkpoint has room, with so many bytes of facts more.

        So that it has it also when somebody else has filled the disk. On a full disk empty heap
        files make room for it. Raises StoreFull.
        """
        if self._log.stated_bytes + fact_bytes > self._checkpoints.has_room_until:
            self._checkpoints.have_room(fact_bytes)

    def release(self, extent: Extent) -> None:
        """The state no longer names `extent`, as of the facts appended up to the next sync."""
        self._releases.add(extent)

    def free_bytes(self, *, anew: bool = True) -> int:
        """The bytes of payload that the disk still has room for, with the empty heap files.

        If not `anew`, the disk is looked at once a group, and what was placed since is taken off.
        """
        written = self._heap.bytes_written
        if anew or self._free_seen is None:
            self._free_seen = self._disk.free_bytes() + written
        reusable = self._heap.empty_files * self._heap.file_bytes
        return self._free_seen - written + reusable

    @property
    def heap_file_bytes(self) -> int:
        """Bytes of one heap file."""
        return self._heap.file_bytes

    @property
    def group_bytes_max(self) -> int:
        """The bytes of facts that one group can hold; each fact costs four bytes more."""
        return self._log.group_bytes_max(len(self._heap.dirty))

    # ------------------------------------------------------------------------------- syncing

    def begin_sync(self, *, lone: bool = True) -> Sync | None:
        """Write the waiting facts as one group and say what must be synced; None if nothing must.

        `lone` says that one caller waits for it and nothing else: then more payload is copied.
        Raises StoreFull if a checkpoint has to come first (see `checkpoint_due`); StorePoisoned,
        also for a group that could not fit an empty log.
        """
        log = self._log
        if self._health.failure is not None:
            self._health.check()
        self._free_seen = None
        if not log.pending:
            if log.durable < log.head:
                return self._captured()
            if self._releases.some:
                self._free_released()
            return None
        ranges = self._heap.dirty_ranges()
        copied = self._checkpoints.wants_copies(ranges, lone=lone)
        if not copied and not log.fits(len(ranges)):
            self._check_could_fit(len(ranges))
            raise StoreFull(
                "the log is full until a checkpoint is written; try again then", file=LOG_NAME
            )
        self._write_group(ranges, copied=copied)
        return self._captured()

    def _check_could_fit(self, ranges: int) -> None:
        if not self._log.could_fit(ranges):
            sentence = (
                f"one group of facts is larger than the log of {self._log.capacity} bytes; start"
                " again and do less at once (a new store has a larger log with `log_bytes`)"
            )
            error = StorePoisoned(sentence, file=LOG_NAME)
            self._health.poison(error)
            raise error

    def end_sync(self, sync: Sync) -> None:
        """Take note that a sync has ended: its facts are durable. Frees what its facts released."""
        assert sync.done, "a sync must run before it ends"
        if sync.captures:
            self._heap.captured(sync.captures)
        self._heap.names_synced = max(self._heap.names_synced, sync.reached.names_made)
        if self._log.durable < sync.reached.lsn:
            self._log.durable = sync.reached.lsn
            note_end(self._witness, self._log.durable)
        self._facts_durable = max(self._facts_durable, sync.reached.facts)
        self._syncs += 1
        if self._releases.some:
            self._free_released()

    def sync(self) -> None:
        """Make everything durable here and now. Raises StoreFull, StorePoisoned."""
        sync = self.begin_sync()
        if sync is not None:
            sync.run()
            self.end_sync(sync)

    def flush_hint(self) -> list[File]:
        """Heap files worth syncing early in a worker; give them back through `flushed`."""
        captures = self._heap.hand_out()
        self._handed_out.update((each.file.name, each) for each in captures)
        return [each.file for each in captures]

    @property
    def handed_out_bytes(self) -> int:
        """The unsynced bytes of the files that a `flush_hint` gave."""
        return sum(each.position - each.start for each in self._handed_out.values())

    @property
    def unsynced_bytes(self) -> int:
        """Heap bytes that were written and that no ended sync covers."""
        return self._heap.unsynced_bytes

    @property
    def queue_files_unwritten(self) -> int:
        """Files of queues that the next syncs write."""
        return 0 if self.queue_files is None else self.queue_files.unwritten

    def flushed(self, files: Iterable[File]) -> None:
        """These files of a `flush_hint` were synced."""
        for file in files:
            self._heap.hand_back(self._handed_out.pop(file.name))

    def _free_released(self) -> None:
        if not self._log.pending:
            self._releases.close_group(self._log.next_fact)
        self._releases.free(self._facts_durable)

    def _write_group(self, ranges: list[DirtyRange], *, copied: bool) -> None:
        self._log.write_group(ranges, self._heap.copies(ranges) if copied else b"")
        self.waiting_bytes = 0
        self._groups += 1
        if self._releases.some:
            self._releases.close_group(self._log.next_fact)

    def _captured(self, *, copied: bool = False) -> Sync:
        made = self._heap.names_made
        new_names = made > self._heap.names_synced
        stated = self.queue_files.captured if self.queue_files is not None else 0
        reached = reached_of((self._log.head, self._log.next_fact, made, new_names, stated))
        return Sync(
            self._disk,
            self._log.file,
            self._heap.capture(copied=copied),
            reached=reached,
            queue_files=self.queue_files,
        )

    # --------------------------------------------------------------------------- checkpoints

    @property
    def checkpoint_due(self) -> bool:
        """Whether a checkpoint is wanted, or the next sync would not fit without one.

        While one is under way only the second counts; then wait for it to end.
        """
        log, checkpoints = self._log, self._checkpoints
        if log.pending and not log.fits(len(self._heap.dirty)):
            return True
        return log.head >= checkpoints.due_at and not checkpoints.under_way

    def begin_checkpoint(self, snapshots: Snapshots | Iterable[bytes]) -> Checkpoint | None:
        """A checkpoint of the owner's state, as of the facts appended so far; None if one runs.

        An owner without incoming sequences gives pieces of its state alone. They are drawn by
        `run`, in its thread, so they must not change with what comes after this call. Raises
        StorePoisoned. A full disk refuses the checkpoint, not the store: `Checkpoint.refused`.
        """
        if self._checkpoints.under_way:
            return None
        self._health.check()
        draft = self._checkpoints.draft(snapshots)
        if self._log.pending and self._log.fits(len(self._heap.dirty)):
            ranges = self._heap.dirty_ranges()
            self._write_group(ranges, copied=self._checkpoints.wants_copies(ranges, lone=False))
        # A start behind it does not read the copies before it.
        return self._checkpoints.begin(draft, self._captured(copied=True))

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is durable: the log before the older one of the pairs is free."""
        assert checkpoint.done, "a checkpoint must run before it ends"
        self.end_sync(checkpoint.sync)
        self._checkpoints.end(checkpoint)

    def checkpoint(self, snapshots: Snapshots | Iterable[bytes]) -> None:
        """Write a checkpoint here and now. Raises StoreFull, StorePoisoned."""
        checkpoint = self.begin_checkpoint(snapshots)
        assert checkpoint is not None, "another checkpoint is under way"
        try:
            checkpoint.run()
        except BaseException:
            # The owner could not say what its state is; the pair in use stands as it was.
            self._checkpoints.give_up()
            raise
        self.end_checkpoint(checkpoint)
        if checkpoint.refused is not None:
            raise checkpoint.refused

    def poison(self, error: StorePoisoned) -> None:
        """Write nothing more, also of what is stated already: its owner's state is not sound."""
        self._health.poison(error)

    # ------------------------------------------------------------------------------- reading

    @property
    def surplus_files(self) -> int:
        """Empty heap files beyond those that are kept for recycling."""
        return self._heap.surplus_files

    # ------------------------------------------------------------------------------ the rest

    @property
    def counters(self) -> StoreCounters:
        """Counters since the store was opened."""
        express_memory, express_in_memory = self._heap.express_memory
        return StoreCounters(
            syncs=self._syncs,
            groups=self._groups,
            heap_bytes=self._heap.bytes_written,
            log_bytes=self._log.bytes_written,
            checkpoints=self._checkpoints.written,
            heap_files=self._heap.files,
            free_heap_files=self._heap.free_files,
            express_memory=express_memory,
            express_in_memory=express_in_memory,
        )

    @property
    def live_bytes(self) -> int:
        """Heap bytes that are not free, including those released but not yet durably so."""
        return self._heap.live_bytes

    def seal(self) -> None:
        """Write, without a sync, that everything is durable; spares the next start its doubts.

        For quiet moments. Does nothing if facts wait or nothing happened since the last one.
        """
        quiet = not self._log.pending and self._log.durable == self._log.head
        if quiet and self._marked_at < self._log.head:
            # In other files too: one hit on the end of the log may take groups and seal alike.
            self._pairs.note_end(self._log.head)
            self._log.write_mark(SEAL)
            self._log.durable = self._marked_at = self._log.head
            # A power failure from now on takes none of it, though nobody waits for that.
            for file in (self._witness, self._log.file):
                file.begin_writing()

    def close(self, snapshots: Snapshots | Iterable[bytes] | None = None) -> None:
        """Make everything durable, seal the log and unlock; a poisoned store only unlocks.

        With `snapshots`, write a last checkpoint, so that the next start replays nothing. Raises
        StoreFull, StorePoisoned; the folder is unlocked all the same.
        """
        try:
            if self._open and self._health.failure is None:
                if snapshots is not None and not self._checkpoints.under_way:
                    self.checkpoint(snapshots)
                self.sync()
                self.seal()
        finally:
            self._open = False
            self._close_files()

    def _close_files(self) -> None:
        self._heap.close()
        for file in (*self._opened_files, *self._pairs.files):
            file.close()
        self._disk.close()
