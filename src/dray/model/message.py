"""A message, as users send and receive it."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.model.classes import Acknowledge, MessageClass
from dray.model.ids import LookupId, ManagerId, MessageId, TransactionId
from dray.model.limits import PRIORITY_DEFAULT

Buffer = bytes | bytearray | memoryview

_SHOWN_BYTES: Final = 64
"""Bytes of a body or an extension that a `repr` shows, so that it fits a log."""


class _Body(msgspec.Struct, frozen=True):
    body: Buffer = b""


class Message(_Body, frozen=True, kw_only=True):
    """One message: its body, and keywords. Queue managers set the ones after `traceparent`.

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
    use_dead_letter_queue: bool | None = None
    use_journal_queue: bool = False
    traceparent: str | None = None

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

    def __repr__(self) -> str:
        """The properties that are set; of long bytes the first few and the length."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        defaults = self.__struct_defaults__
        told = [
            f"{name}={_shown(value)}"
            for (name, value), default in zip(values, defaults, strict=True)
            if name == "body" or value != default
        ]
        return f"Message({', '.join(told)})"

    @property
    def body_size(self) -> int:
        """Length of the body in bytes."""
        return memoryview(self.body).nbytes


def _shown(value: object) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        return repr(value)
    view = memoryview(value)
    beginning = repr(bytes(view[:_SHOWN_BYTES]))
    return beginning if view.nbytes <= _SHOWN_BYTES else f"{beginning}...({view.nbytes} bytes)"
