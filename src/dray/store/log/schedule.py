"""When the next checkpoint is due, and how large it may be: counted in bytes of the log."""

from __future__ import annotations

from dray.store.limits import (
    LOG_CHECKPOINT_SHARE,
    LOG_RETRY_SHARE,
    STATE_BESIDE_BYTES,
    STATE_PER_FACTS,
)
from dray.store.log.qmlog import Log


class CheckpointSchedule:
    """Follows the checkpoints of one store."""

    def __init__(self) -> None:
        """Begin before the store is open."""
        self.due_at = 0
        """Where the log's head is when the next one is due."""
        # The part of the log's `stated_bytes` in the newest checkpoint and in the one under way.
        self._stated_in_newest = self._stated_in_next = 0

    def opened(self, newest: int, log: Log, *, wanted: bool) -> None:
        """The log was replayed behind the checkpoint at `newest`; `wanted` makes one due now.

        It is wanted while a checkpoint may be the only one of its pair, or the last is not whole.
        """
        # No less than the facts that were followed beyond it.
        self._stated_in_newest = newest - log.head
        self.due_at = 0 if wanted else self._after(newest, log)

    def growth(self, log: Log, fact_bytes: int) -> int:
        """How much larger the next one may be than the newest, with so many bytes of facts more."""
        stated = log.stated_bytes - self._stated_in_newest + fact_bytes
        return int(stated * STATE_PER_FACTS) + STATE_BESIDE_BYTES

    def stated_until(self, room: int) -> int:
        """How large the log's `stated_bytes` may be, so that the growth surely is within `room`."""
        return self._stated_in_newest + int((room - STATE_BESIDE_BYTES) // STATE_PER_FACTS)

    def begun(self, log: Log) -> None:
        """One is under way; it contains the facts that are stated by now."""
        self._stated_in_next = log.stated_bytes

    def written(self, newest: int, log: Log) -> None:
        """The one under way is durable, and is the one at `newest` now."""
        self._stated_in_newest = self._stated_in_next
        self.due_at = self._after(newest, log)

    def refused(self, log: Log) -> None:
        """The disk had no room for the one under way; it is tried again after some more facts."""
        self.due_at = log.head + log.capacity // LOG_RETRY_SHARE

    def _after(self, newest: int, log: Log) -> int:
        return newest + log.capacity // LOG_CHECKPOINT_SHARE
