"""The summary of a landing, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import msgspec


class HoleLanded(msgspec.Struct, frozen=True):
    """A large message that cannot be whole any more; `missing` as "3-5", "header" or "trailer"."""

    sequence_id: str
    label: str
    missing: tuple[str, ...]
    fragment_count: int


class LandingSummary(msgspec.Struct, kw_only=True):
    """Counts of one run.

    `files` and `bytes` are payloads put in place and entered in the table by this run. `seconds`
    are those from start to end, `moving_seconds` from the first micro-batch to the last commit.
    `replayed` are messages that Spark presented again after a restart and that were in the table
    already, which is as it should be; `duplicates` are messages that stand in the queue a second
    time, which is not. `out_of_order` counts messages of one transaction that did not follow each
    other in order. `taken` are messages that another receiver took while they were landed.
    `unreadable` has a sentence for each message that only a newer program can read, and says where
    it is now.
    `messages` are small messages that were entered in the table with their bodies by this run.
    `skipped` counts messages that did not land and stay in their queue, and `left` has a sentence
    for each queue that has such messages.
    """

    out: Path
    payload_directory: Path | str
    table_directory: Path
    files: int = 0
    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    moving_seconds: float = 0.0
    batches: int = 0
    duplicates: int = 0
    replayed: int = 0
    out_of_order: int = 0
    taken: int = 0
    skipped: int = 0
    holes: list[HoleLanded] = []
    unreadable: list[str] = []
    left: list[str] = []

    @property
    def rate_bytes_s(self) -> float:
        """Payload bytes a second from start to end, the start of Spark included."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def moving_rate_bytes_s(self) -> float:
        """Payload bytes a second from the first byte to the last commit."""
        return self.bytes / self.moving_seconds if self.moving_seconds else 0.0

    @property
    def clean(self) -> bool:
        """Whether everything that was there landed whole, once and in order."""
        return not (
            self.duplicates or self.out_of_order or self.holes or self.unreadable or self.left
        )
