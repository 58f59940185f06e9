"""State of a file transfer, as both ends and other programs see it."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

AUTOMATIC: Final = "auto"
"""A producer listens where it reaches its queue manager from."""


class TransferState(enum.StrEnum):
    """The state of an offer, or of one consumer's copy of it; see docs/explanation/transfer.md."""

    DISCOVERING = "discovering"
    SENDING = "sending"
    WAITING = "waiting"
    SUSPENDED = "suspended"
    DONE = "done"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether the transfer has ended."""
        return self in _FINAL


_FINAL = frozenset(
    {
        TransferState.DONE,
        TransferState.TIMED_OUT,
        TransferState.CANCELLED,
        TransferState.FAILED,
    }
)


class TransferStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer at one moment. Sizes in bytes, the rate in bytes a second.

    `consumer_id` is empty where the offer as a whole is meant; `bytes_done` is then that of its
    slowest consumer. `fragments_resent` counts what was sent more than once. `direction` is "out"
    for an offer, "in" for a file that is being received; `error` is the code of what ended it.
    """

    state: TransferState
    consumer_id: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    fragments_resent: int = 0
    rate_bytes_s: float = 0.0
    transfer_id: str = ""
    direction: str = "out"
    label: str = ""
    queue: str = ""
    path: str = ""
    error: str = ""

    @property
    def bytes_left(self) -> int:
        """Bytes that have not arrived yet."""
        return self.bytes_total - self.bytes_done

    @property
    def percent(self) -> float:
        """Share of the bytes that arrived, 0 to 100; of an empty file 100 when it is done."""
        if not self.bytes_total:
            return 100.0 if self.state is TransferState.DONE else 0.0
        return 100.0 * self.bytes_done / self.bytes_total
