"""The loop, the heap and the bounds on memory that the connections of one daemon share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.daemon.files.copying import Copier
from dray.daemon.limits import (
    OUTBOX_SHARE,
    OUTBOX_TOTAL_BYTES_MAX,
    READ_BYTES_WHILE_TIGHT,
    SCRATCH_BYTES,
    SPARE_BODIES_MAX,
)
from dray.daemon.notice_log import NoticeLog
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.sockets.intake import Intake
from dray.daemon.sockets.time_shares import TimeShares
from dray.daemon.timekeeper import RunDelay
from dray.model.places import Amounts
from dray.store.store import Store
from dray.wire.stream import READ_BYTES


class Surroundings:
    """State shared by the connections of one daemon; other daemons run in other threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        heap: Store,
        backlog: DiskBacklog,
        notices: NoticeLog,
    ) -> None:
        """Wait in `loop`, send from `heap`, take large bodies in as `backlog` says."""
        self.loop = loop
        self.heap = heap
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.inlet = bytearray(READ_BYTES)
        self.backlog = backlog
        self.intake = Intake(loop, backlog)
        self.run_delay = RunDelay()
        self.times = TimeShares(loop, self.run_delay.seconds)
        self.copier = Copier(loop, backlog)
        self.notices = notices
        """The log of what happens to connections; each kind is logged once a minute at the most."""
        self.spares = Spares()
        self.unsent_bytes = 0
        """Bytes in memory that wait in all connections to be fetched."""
        self._unsent_of: Amounts[str] = Amounts()
        """The same of each caller that has a share."""

    def count_unsent(self, place: str, more: int) -> None:
        """Count bytes that wait to be fetched by a caller; `place` is empty for the owner."""
        self.unsent_bytes += more
        if place and more:
            self._unsent_of.add(place, more)

    def is_tight(self, place: str) -> bool:
        """Whether a connection of a caller that leaves its answers unfetched is not read from."""
        share = OUTBOX_TOTAL_BYTES_MAX // OUTBOX_SHARE
        return self.unsent_bytes > OUTBOX_TOTAL_BYTES_MAX or self._unsent_of[place] > share

    @property
    def read_bytes(self) -> int:
        """The bytes to read at a time, of small frames."""
        if self.unsent_bytes > OUTBOX_TOTAL_BYTES_MAX:
            return READ_BYTES_WHILE_TIGHT
        return self.intake.read_bytes


class Spares:
    """The few connections that keep memory for a large frame: those that had one lately."""

    def __init__(self) -> None:
        self._kept: dict[Callable[[], None], None] = {}

    def keep(self, forget: Callable[[], None]) -> None:
        """Let a connection keep memory, and the one that used its memory longest ago forget it."""
        self._kept.pop(forget, None)
        self._kept[forget] = None
        if len(self._kept) > SPARE_BODIES_MAX:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            oldest()

    def closed(self, forget: Callable[[], None]) -> None:
        """A connection has ended."""
        self._kept.pop(forget, None)
