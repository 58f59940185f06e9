"""The bound of received bytes that wait for the disk, and who is held back while it is passed.

A synced commit waits for all bytes that were written before it. A large message is written faster
than a disk takes it, so without a bound a small commit of another queue stands behind hundreds of
megabytes. So the bytes that are written and not yet synced are kept below what the disk was
measured to take in `BACKLOG_S`; above that no memory is given for another large body, which leaves
it with its sender. Small frames always come in.

    bytes not yet synced     a large body that begins          flushing (`flushing.py`)
    up to the bound          has its memory at once            4 MiB at a time, as they come
    above the bound          waits; its connection is not      one flush after the other
                             read from, no file is fetched

When a sync has brought the bytes below the bound, all waiting connections are told at the same
time. Each then brings one body, however many they are: the bound is for the sum of all.

A sync also writes the files of queues that were made or changed, one after the other, and a commit
waits for all of them. So a connection whose frame changed such a file while many are not written
waits, too, before its next frame is decided. All others go on.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.daemon.limits import (
    BACKLOG_BYTES_MAX,
    BACKLOG_BYTES_MIN,
    BACKLOG_RATE_S,
    BACKLOG_S,
    QUEUE_FILES_UNWRITTEN_MAX,
)

Told = Callable[[], object]


class DiskBacklog:
    """One for each daemon; driven in its loop's thread."""

    def __init__(
        self,
        unsynced_bytes: Callable[[], int],
        call_soon: Callable[[Told], object],
        unwritten_files: Callable[[], int] = lambda: 0,
    ) -> None:
        """Ask these of the store; tell those who waited through `call_soon`."""
        self._unsynced_bytes = unsynced_bytes
        self._unwritten_files = unwritten_files
        self._call_soon = call_soon
        self.waiting_for_files: dict[Told, None] = {}
        """Sessions to be told when the files of queues are written."""
        self.waiting: dict[Told, None] = {}
        """Sessions to be told when there is room."""
        self._bytes = self._seconds = 0.0
        self._lifted = False
        self.bound = BACKLOG_BYTES_MIN
        """Bytes that the disk is believed to take in `BACKLOG_S`."""

    @property
    def is_full(self) -> bool:
        """Whether no more large bodies should come in now."""
        return not self._lifted and self._unsynced_bytes() > self.bound

    def admits(self, told: Told) -> bool:
        """Whether a large body may come in; if not, `told` is called when it may be asked again."""
        if self.is_full:
            self.waiting[told] = None
            return False
        return True

    def admits_files(self, told: Told) -> bool:
        """Whether a session that changed files of queues may go on; if not, `told` says when."""
        if self._has_many_files:
            self.waiting_for_files[told] = None
            return False
        return True

    @property
    def _has_many_files(self) -> bool:
        return not self._lifted and self._unwritten_files() >= QUEUE_FILES_UNWRITTEN_MAX

    def forget(self, told: Told) -> None:
        """The session to be told has gone."""
        self.waiting.pop(told, None)
        self.waiting_for_files.pop(told, None)

    def took(self, size: int, seconds: float) -> None:
        """Learn from a flush of `size` bytes how fast the disk is."""
        self._bytes += size
        self._seconds += seconds
        if self._seconds > BACKLOG_RATE_S:
            self._bytes /= 2
            self._seconds /= 2
        bytes_in_time = self._bytes / self._seconds * BACKLOG_S if self._seconds else 0.0
        self.bound = round(min(max(bytes_in_time, BACKLOG_BYTES_MIN), BACKLOG_BYTES_MAX))

    def shrank(self) -> None:
        """A sync has ended: go on with those who wait, if it was enough."""
        if self.waiting and not self.is_full:
            waiting, self.waiting = self.waiting, {}
            self._tell(waiting)
        if self.waiting_for_files and not self._has_many_files:
            waiting, self.waiting_for_files = self.waiting_for_files, {}
            self._tell(waiting)

    def _tell(self, waiting: dict[Told, None]) -> None:
        for told in waiting:
            # Not at once: this is the middle of a turn, and what comes in begins another.
            self._call_soon(told)

    def lift(self) -> None:
        """Hold nobody back any more: the store takes nothing, whatever comes."""
        self._lifted = True
        self.shrank()
