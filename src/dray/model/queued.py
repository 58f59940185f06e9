"""Messages of a queue as its operator sees them: without their bodies, large ones as one."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from dray.model.classes import MessageClass, Part
from dray.model.ids import LookupId, ManagerId, MessageId, TransactionId

_REASONS: Final = {
    MessageClass.NACK_BAD_DST_Q: "its queue does not exist; create the queue there, then retry",
    MessageClass.NACK_PURGED: "it was purged, or deleted with its outgoing queue, before it"
    " reached its queue",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "it did not reach its queue in time",
    MessageClass.NACK_Q_EXCEED_QUOTA: "its queue was full; make room there, then retry",
    MessageClass.NACK_ACCESS_DENIED: "its destination does not let this queue manager send there",
    MessageClass.NACK_HOP_COUNT_EXCEEDED: "too many queue managers would have forwarded it; look"
    " for a circle in the routes",
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: "it was sent in a transaction, and its queue is not"
    " transactional",
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: "it was sent outside transactions, and its queue is"
    " transactional",
    MessageClass.NACK_Q_DELETED: "its queue was deleted with it",
    MessageClass.NACK_Q_PURGED: "it was purged from its queue",
    MessageClass.NACK_RECEIVE_TIMEOUT: "nobody received it in time",
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: "it was sent, and no word came in time: it may"
    " have been received; look there before you retry",
    MessageClass.NACK_RECEIVE_REJECTED: "its receiver rejected it, or its bytes were damaged there",
}


class Wholeness(enum.StrEnum):
    """Whether all parts of a message are in its queue; a plain message is always whole."""

    WHOLE = "whole"
    IN_FLIGHT = "in flight"
    HOLE = "hole"


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a queue without its body. A large message is one, whatever its parts are.

    `size` is the bytes of the body that are there; `parts` counts the parts of a large message that
    are there, 0 is a plain one; `parts_in_all` is None until its trailer is there. `lookup_id` is
    the position of its first part. Times in seconds since the epoch.
    `destination` is the queue that it was sent to, if its sender noted that.
    """

    queue: str
    lookup_id: LookupId
    id: MessageId
    label: str
    size: int
    parts: int = 0
    parts_in_all: int | None = None
    wholeness: Wholeness = Wholeness.WHOLE
    correlation_id: str | None = None
    app_specific: int = 0
    priority: int = 0
    recoverable: bool = True
    message_class: MessageClass = MessageClass.NORMAL
    transaction_id: TransactionId | None = None
    source: ManagerId
    destination: str | None = None
    sent_time: float
    arrived_time: float

    @property
    def reason(self) -> str:
        """Why it is a dead letter, in words; empty for a message that did not end."""
        if not self.message_class & MessageClass.NACK_BAD_DST_Q:
            return ""
        return reason_of(self.message_class)


class QueuedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a large message in a queue: its header, a fragment or its trailer.

    `number` is that of a fragment, from 1, and 0 for the others; `size` is its bytes of the body.
    """

    part: Part
    number: int
    lookup_id: LookupId
    id: MessageId
    size: int
    arrived_time: float


def reason_of(message_class: MessageClass) -> str:
    """Why a message of a negative class ended, in words."""
    return _REASONS.get(message_class, "it could not be delivered")


def by_destination(
    letters: Iterable[QueuedMessage], to: str | None
) -> dict[str | None, list[QueuedMessage]]:
    """Dead letters by the queue that each goes to when it is sent again."""
    groups: dict[str | None, list[QueuedMessage]] = {}
    for each in letters:
        groups.setdefault(to or each.destination, []).append(each)
    return groups
