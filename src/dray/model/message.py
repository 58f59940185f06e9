"""A message, as users send and receive it."""

from __future__ import annotations

import msgspec

from dray.model.classes import Acknowledge, MessageClass
from dray.model.ids import LookupId, ManagerId, MessageId, TransactionId
from dray.model.limits import PRIORITY_DEFAULT

Buffer = bytes | bytearray | memoryview


class _Body(msgspec.Struct, frozen=True):
    body: Buffer = b""


class Message(_Body, frozen=True, kw_only=True):
    """One message: its body, and keywords. Those after `use_journal_queue` queue managers set.

    `body` is bytes or a memoryview; times are seconds since the epoch (`sent_time`, `arrived_time`)
    or durations in seconds (`time_to_...`); sizes are bytes.
    """

    label: str = ""
    correlation_id: str | None = None
    app_specific: int = 0
    extension: bytes = b""
    priority: int = PRIORITY_DEFAULT
    recoverable: bool | None = None
    time_to_reach_queue: float | None = None
    time_to_be_received: float | None = None
    administration_queue: str | None = None
    acknowledge: Acknowledge = Acknowledge.NONE
    response_queue: str | None = None
    use_dead_letter_queue: bool = False
    use_journal_queue: bool = False

    id: MessageId | None = None
    lookup_id: LookupId | None = None
    message_class: MessageClass = MessageClass.NORMAL
    transaction_id: TransactionId | None = None
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    sent_time: float | None = None
    arrived_time: float | None = None
    source: ManagerId | None = None
    destination: str | None = None
    abort_count: int = 0
    move_count: int = 0

    @property
    def body_size(self) -> int:
        """Length of the body in bytes."""
        return memoryview(self.body).nbytes
