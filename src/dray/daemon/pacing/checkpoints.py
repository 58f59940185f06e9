"""Checkpoints: a worker writes one when the log has grown enough; a full disk delays it."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from dray.daemon.limits import CHECKPOINT_RETRY_S
from dray.daemon.pacing.passes import GivenUp
from dray.daemon.pacing.worker import Worker
from dray.errors import StorePoisoned
from dray.machine import Machine, always, but, nothing, on
from dray.store.log.checkpoint import Snapshots
from dray.store.store import Store
from dray.store.syncing import Checkpoint

_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """The log has grown enough for a checkpoint."""


class Begun(NamedTuple):
    """A worker has a snapshot and writes it."""

    checkpoint: Checkpoint


class Written(NamedTuple):
    """The worker has ended, and the store knows of it."""

    checkpoint: Checkpoint


class RetryDue(NamedTuple):
    """It is time to look for room again."""


class CheckpointCourse(enum.Enum):
    """Checkpoints, one after another."""

    NONE = "none is under way"
    WRITING = "a worker writes one"
    NO_ROOM = "the disk had no room for one"
    OVER = "there is no other"


class Checkpoints(Machine[CheckpointCourse, Any, Any]):
    """Has checkpoints written, by the table at the end of this module."""

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
        super().__init__(CheckpointCourse.NONE)
        self._store = store
        self._worker = worker
        self._loop = loop
        self._snapshot = snapshot
        self._room_made = room_made
        self._failed = failed

    def due(self) -> None:
        """Write one, if none is under way."""
        self._step(Due())

    def was_refused(self, event: Written, _now: float) -> bool:
        """The disk had no room."""
        return event.checkpoint.refused is not None

    def begin(self, _event: object, now: float) -> list[Any]:
        """Take a snapshot; then Begun, unless the store has no use for a checkpoint now."""
        try:
            checkpoint = self._store.begin_checkpoint(self._snapshot())
        except StorePoisoned as error:
            self._failed(error)
            return []
        return [] if checkpoint is None else self.handle(Begun(checkpoint), now)

    def write(self, event: Begun, _now: float) -> list[Any]:
        """Have the worker write it; then Written."""
        self._worker.submit(event.checkpoint.run, partial(self._written, event.checkpoint))
        return []

    def retry_later(self, event: Written, _now: float) -> list[Any]:
        """Warn the operator, and look for room again in a while."""
        _log.error("there is no room for a checkpoint: %s", event.checkpoint.refused)
        self._loop.call_later(CHECKPOINT_RETRY_S, self._step, RetryDue())
        return []

    def go_on(self, _event: object, _now: float) -> list[Any]:
        """Write what waited for room in the log."""
        self._room_made()
        return []

    def _written(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        if self._stage is not CheckpointCourse.OVER and error is None:
            try:
                self._store.end_checkpoint(checkpoint)
            except StorePoisoned as failed:
                error = failed
        if error is not None:
            self._failed(error)
        self._step(Written(checkpoint))

    def _step(self, event: object) -> None:
        self.handle(event, self._loop.time())


_NONE, _WRITING = CheckpointCourse.NONE, CheckpointCourse.WRITING
_NO_ROOM = CheckpointCourse.NO_ROOM
_EVERY = but(tuple(CheckpointCourse), CheckpointCourse.OVER)
CHECKPOINT: Final = (
    on(_NONE, Due, always, Checkpoints.begin),
    on((_WRITING, _NO_ROOM), Due, always, nothing),
    on(_NONE, Begun, always, Checkpoints.write, _WRITING),
    on((_WRITING, _NO_ROOM), Begun, always, nothing),
    on(_WRITING, Written, Checkpoints.was_refused, Checkpoints.retry_later, _NO_ROOM),
    on(_WRITING, Written, always, Checkpoints.go_on, _NONE),
    on((_NONE, _NO_ROOM), Written, always, nothing),
    on(_NO_ROOM, RetryDue, always, Checkpoints.go_on, _NONE),
    on((_NONE, _WRITING), RetryDue, always, nothing),
    on(_EVERY, GivenUp, always, nothing, CheckpointCourse.OVER),
)
Checkpoints.run(CHECKPOINT)
