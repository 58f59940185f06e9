"""Checkpoints: a worker writes one when the log has grown enough; a full disk delays it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from dray.daemon.limits import CHECKPOINT_RETRY_S
from dray.daemon.pacing.worker import Worker
from dray.errors import StorePoisoned
from dray.store.log.checkpoint import Snapshots
from dray.store.store import Store
from dray.store.syncing import Checkpoint

_log = logging.getLogger(__name__)


class Checkpoints:
    """Has checkpoints written, one after another."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        loop: asyncio.AbstractEventLoop,
        *,
        snapshot: Callable[[], Snapshots],
        room_made: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Begin without one; `room_made` is called when the log may have room again."""
        self._store = store
        self._worker = worker
        self._loop = loop
        self._snapshot = snapshot
        self._room_made = room_made
        self._failed = failed
        self._busy = self._over = False
        """Whether one is written, or waits for room on the disk; whether there is no other."""

    def due(self) -> None:
        """Have one written, if the store has use for it and no other is under way."""
        if self._busy or self._over:
            return
        try:
            checkpoint = self._store.begin_checkpoint(self._snapshot())
        except StorePoisoned as error:
            self._failed(error)
            return
        if checkpoint is not None:
            self._busy = True
            self._worker.submit(checkpoint.run, partial(self._written, checkpoint))

    def give_up(self) -> None:
        """Begin no other; of the one that is under way only a failure is told."""
        self._over = True

    def _written(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        if error is None and not self._over:
            try:
                self._store.end_checkpoint(checkpoint)
            except StorePoisoned as failed:
                error = failed
        if error is not None:
            self._failed(error)
        if self._over:
            return
        if checkpoint.refused is not None:
            _log.error("there is no room for a checkpoint: %s", checkpoint.refused)
            self._loop.call_later(CHECKPOINT_RETRY_S, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Write what waited for room in the log; that begins another checkpoint, if one is due."""
        if not self._over:
            self._busy = False
            self._room_made()
