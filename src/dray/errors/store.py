"""Errors of the data directory."""

from __future__ import annotations

from dray.errors.root import DrayError


class StoreError(DrayError):
    """The queue manager cannot use its data directory."""

    code = "store-error"
    exit_status = 40


class StoreLocked(StoreError):
    """Another live process uses the data directory."""

    code = "store-locked"
    exit_status = 41
    retryable = True


class StoreCorrupt(StoreError):
    """A file of the store, `file`, is missing or damaged; `event` is the number of the fault."""

    code = "store-corrupt"
    exit_status = 42
    event: int
    file: str


class StorePoisoned(StoreError):
    """A write or sync failed; the store accepts nothing more until it is opened again."""

    code = "store-poisoned"
    exit_status = 43


class StoreFull(StoreError):
    """The disk has no room; the queue manager kept nothing of the refused message."""

    code = "store-full"
    exit_status = 44
    retryable = True


class BackupDamaged(StoreError):
    """The archive is damaged, truncated or not a backup; nothing was restored."""

    code = "backup-damaged"
    exit_status = 45
    archive: str


class StoreMoved(StoreError):
    """The store of `directory` was moved to another directory, `to`."""

    code = "store-moved"
    exit_status = 46
    directory: str
    to: str
