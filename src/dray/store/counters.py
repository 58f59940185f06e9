"""Counters of a store."""

from __future__ import annotations

from typing import NamedTuple


class StoreCounters(NamedTuple):
    """Counters since the store was opened, and how many heap files it has now."""

    syncs: int
    groups: int
    heap_bytes: int
    log_bytes: int
    checkpoints: int
    heap_files: int
    free_heap_files: int
    express_memory: int
    """The most bytes of express messages that stay in memory."""
    express_in_memory: int
    """The bytes of express messages that are there now."""
