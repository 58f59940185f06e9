"""Poison: after one failed write or sync nothing more is written until the store is reopened.

A kernel that could not write a page may drop it and report the failure once; a sync that is tried
again then succeeds and has lost bytes. So the first failure is remembered here, and every later
write or sync of the same store raises it again without touching the disk. Recovery from the disk
is the only way on.
"""

from __future__ import annotations

from dray.errors import StoreError, StoreFull, StorePoisoned
from dray.store.disk import Disk, File, ReadableBuffer


class Health:
    """Whether the store may still write. Set from any thread, never cleared."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self.serving = False
        """The start is over: from here on a file that may not be opened is a failure as well."""

    def check(self) -> None:
        """Raise StorePoisoned if something failed before."""
        if self.failure is not None:
            raise StorePoisoned(self.failure)

    def poison(self, error: Exception) -> None:
        """Remember the first failure; it is the cause, later ones are consequences."""
        if self.failure is None:
            self.failure = str(error)


class GuardedFile:
    """A file whose failures poison its store."""

    def __init__(self, inner: File, health: Health) -> None:
        """Guard `inner` with the `health` of its store."""
        self.name = inner.name
        self._inner = inner
        self._health = health
        # Allowed after a failure too.
        self.read_into, self.size = inner.read_into, inner.size
        self.descriptor, self.close = inner.descriptor, inner.close

    def write(self, data: ReadableBuffer, offset: int) -> None:
        """Write all of it. Raises StoreFull (harmless here) or StorePoisoned (final)."""
        if self._health.failure is not None:
            self._health.check()
        try:
            self._inner.write(data, offset)
        except StorePoisoned as error:
            self._health.poison(error)
            raise

    def begin_writing(self) -> None:
        """Begin, unless something failed: then `sync` says so."""
        if self._health.failure is None:
            self._inner.begin_writing()

    def sync(self) -> None:
        """Make durable, once. Raises StorePoisoned."""
        if self._health.failure is not None:
            self._health.check()
        try:
            self._inner.sync()
        except StorePoisoned as error:
            self._health.poison(error)
            raise

    def truncate(self, size: int) -> None:
        """Cut or extend."""
        self._health.check()
        self._inner.truncate(size)


class GuardedDisk:
    """A disk whose failures poison its store."""

    def __init__(self, inner: Disk, health: Health) -> None:
        """Guard `inner` with `health`."""
        self._inner = inner
        self._health = health
        # Allowed after a failure too.
        self.lock, self.close, self.open_to_read = inner.lock, inner.close, inner.open_to_read
        self.exists, self.names, self.not_files = inner.exists, inner.names, inner.not_files
        self.had_store = inner.had_store

    def open(self, name: str, *, size: int = 0) -> GuardedFile:
        """Open a file that shares this disk's health.

        While the store serves, one that may not be opened poisons it: half of something may have
        been done. Before that it is as the disk says.
        """
        self._health.check()
        try:
            inner = self._inner.open(name, size=size)
        except StoreFull:
            raise
        except StoreError as error:
            if not self._health.serving:
                raise
            self._health.poison(error)
            raise StorePoisoned(str(error), file=name) from error
        return GuardedFile(inner, self._health)

    def rename(self, old: str, new: str) -> None:
        """Rename on the disk beneath."""
        self._health.check()
        self._inner.rename(old, new)

    def remove(self, name: str) -> None:
        """Remove on the disk beneath."""
        self._health.check()
        self._inner.remove(name)

    def sync_directory(self, folder: str = "") -> None:
        """Make names durable, once. Raises StorePoisoned."""
        self._health.check()
        try:
            self._inner.sync_directory(folder)
        except StorePoisoned as error:
            self._health.poison(error)
            raise

    def free_bytes(self) -> int:
        """Room that is left."""
        return self._inner.free_bytes()
