"""Syncs, checkpoints and early flushes of a workload: begun in order, ended in any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from dray.errors import StoreFull
from dray.store.disk import File
from dray.store.log.checkpoint import Snapshots
from dray.store.store import Store
from dray.store.syncing import Checkpoint, Sync
from dray.testing.disk import Operation, SimDisk
from dray.testing.harness import ManagerHarness
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_model import Contents
from dray.testing.storage_peer import StoragePeer
from dray.testing.storage_recording import BEGUN, ENDED, Recording

CHECKPOINTS, SYNCS_END, CHECKPOINTS_END, FLUSHES = 0.08, 0.8, 0.4, 0.5
"""The chances in a turn that a checkpoint begins, and that what is under way ends."""


class StoreSyncs:
    """The syncs and checkpoints under way in one store; it calls `ended` when a turn is durable."""

    def __init__(
        self,
        rng: Random,
        store: Store,
        snapshot: Callable[[], Snapshots | Iterable[bytes]],
        ended: Callable[[int], None],
        *,
        checkpoints: float = CHECKPOINTS,
    ) -> None:
        """Begin with nothing under way; a turn begins so many checkpoints by chance."""
        self._checkpoints = checkpoints
        self._rng = rng
        self._store = store
        self._snapshot = snapshot
        self._ended = ended
        self._syncs: list[tuple[int, Sync]] = []
        self._checkpoint: tuple[int, Checkpoint] | None = None
        self._flushing: list[File] = []

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint should begin now: it is due, or chance says so."""
        return self._checkpoint is None and (
            self._store.checkpoint_due or self._rng.random() < self._checkpoints
        )

    def begin(self, turn: int) -> None:
        """Begin the sync of a turn; a full log first needs a checkpoint."""
        try:
            sync = self._store.begin_sync()
        except StoreFull:
            if not self._store.checkpoint_due:
                raise BrokenPromiseError("the log is full and no checkpoint is due") from None
            self.end_everything()
            self._store.checkpoint(self._snapshot())
            sync = self._store.begin_sync()
        if sync is not None:
            self._syncs.append((turn, sync))

    def begin_checkpoint(self, turn: int) -> None:
        """Begin a checkpoint, unless one is under way."""
        checkpoint = self._store.begin_checkpoint(self._snapshot())
        if checkpoint is not None:
            self._checkpoint = (turn, checkpoint)

    def go_on(self) -> None:
        """End a sync, a checkpoint or an early flush that is under way, or let it run on."""
        if self._syncs and self._rng.random() < SYNCS_END:
            self._end_sync(self._rng.randrange(len(self._syncs)))
        if self._checkpoint and self._rng.random() < CHECKPOINTS_END:
            self._end_checkpoint()
        if self._rng.random() < FLUSHES:
            for file in self._flushing:
                file.sync()
            self._store.flushed(self._flushing)
            self._flushing = self._store.flush_hint()

    def _end_sync(self, which: int) -> None:
        turn, sync = self._syncs.pop(which)
        sync.run()
        self._store.end_sync(sync)
        self._ended(turn)

    def _end_checkpoint(self) -> None:
        assert self._checkpoint is not None
        (turn, checkpoint), self._checkpoint = self._checkpoint, None
        checkpoint.run()
        self._store.end_checkpoint(checkpoint)
        self._ended(turn)

    def end_everything(self) -> None:
        """End every sync and the checkpoint."""
        while self._syncs:
            self._end_sync(0)
        if self._checkpoint:
            self._end_checkpoint()


class StorageSyncs(StoreSyncs):
    """Marks in a recording when each turn may be in the log, and when it is durable."""

    def __init__(  # noqa: PLR0917 - it shares the harness of the workload
        self,
        rng: Random,
        harness: ManagerHarness,
        disk: SimDisk,
        recording: Recording,
        contents: Contents,
        peer: StoragePeer,
    ) -> None:
        super().__init__(rng, harness.store, harness.manager.snapshot, self.ended)
        self._disk = disk
        self._recording = recording
        self._contents = contents
        self._peer = peer

    def begin_turn(self) -> int:
        """From here on the contents of now may be what a crash brings back; gives their turn."""
        self._contents.turn += 1
        self._recording.turns[self._contents.turn] = self._contents.frozen()
        self._peer.gather(self._contents.turn)
        self._disk.record(Operation("mark", BEGUN, self._contents.turn))
        return self._contents.turn

    def ended(self, turn: int) -> None:
        """Everything up to this turn is durable: now others may hear of it."""
        self._disk.record(Operation("mark", ENDED, turn))
        self._peer.release(turn)
