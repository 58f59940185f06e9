"""Negative ends of messages: which become dead letters unasked, and what the operator reads.

    use_dead_letter_queue    refused by its destination    any other negative end
    True                     dead letter                   dead letter
    None, the default        dead letter                   -
    False                    -                             -

A refusal is the destination's word that a message may never enter: there is no such queue, it is
full or of the wrong kind, nobody may send there, or too many managers have forwarded the message.
An expiry is what the sender asked for, and a purge, a deletion or a rejection is somebody's will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dray.errors import AccessDenied, NotTransactional, QueueNotFound, QuotaExceeded
from dray.manager.notices import NoticeKind
from dray.manager.queue.system import DEAD_TRANSACTIONAL
from dray.model.classes import MessageClass
from dray.wire.record import COPY_DEAD_LETTER, FLAG_NO_DEAD_LETTER

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.wire.record import RecordHeader

_NEGATIVE = 0x8000
_OF_RECEIVE = 0x4000
_NOT_BY_DESTINATION = (MessageClass.NACK_PURGED, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
KEPT_THERE: Final = 0x10000
"""Beside the class that a source is told: a manager on the way has it among its dead letters."""


class _End(NamedTuple):
    """How a message ended, for the operator of its source."""

    kind: NoticeKind
    sentence: str
    code: str = ""
    """Of a refusal: the code of the error that a local sender would have had."""


_ENDS: Final = {
    MessageClass.NACK_BAD_DST_Q: _End(
        NoticeKind.REFUSED_NO_QUEUE,
        "the destination refused a message, because it has no such queue; create the queue there"
        " or correct the name",
        QueueNotFound.code,
    ),
    MessageClass.NACK_Q_EXCEED_QUOTA: _End(
        NoticeKind.REFUSED_FULL,
        "the destination refused a message, because the queue there is full; receive from it or"
        " raise its quota",
        QuotaExceeded.code,
    ),
    MessageClass.NACK_ACCESS_DENIED: _End(
        NoticeKind.REFUSED_ACCESS,
        "the destination refused a message, because this manager may not send to that queue",
        AccessDenied.code,
    ),
    MessageClass.NACK_HOP_COUNT_EXCEEDED: _End(
        NoticeKind.REFUSED_HOPS,
        "a message was refused, because too many managers had forwarded it; look for a circle in"
        " the routes",
        "hop-count-exceeded",
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: _End(
        NoticeKind.REFUSED_KIND,
        "the destination refused a message, because it was sent in a transaction and the queue"
        " there is not transactional",
        NotTransactional.code,
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: _End(
        NoticeKind.REFUSED_KIND,
        "the destination refused a message, because it was sent outside a transaction and the"
        " queue there is transactional",
        NotTransactional.code,
    ),
    MessageClass.NACK_PURGED: _End(
        NoticeKind.ENDED_PURGED, "a message was purged before it was delivered"
    ),
    MessageClass.NACK_Q_PURGED: _End(
        NoticeKind.ENDED_PURGED, "a message was purged at its destination"
    ),
    MessageClass.NACK_Q_DELETED: _End(
        NoticeKind.ENDED_DELETED, "the queue at the destination was deleted with a message in it"
    ),
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: _End(
        NoticeKind.ENDED_EXPIRED, "a message expired before it was delivered"
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT: _End(
        NoticeKind.ENDED_EXPIRED, "a message expired at its destination before it was received"
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: _End(
        NoticeKind.ENDED_IN_DOUBT,
        "a message was sent, and its destination did not say in time what became of it",
    ),
    MessageClass.NACK_RECEIVE_REJECTED: _End(
        NoticeKind.ENDED_REJECTED, "a receiver at the destination rejected a message"
    ),
}
_OTHER: Final = _End(NoticeKind.ENDED_OTHERWISE, "a message could not be delivered")


def is_refusal(message_class: int) -> bool:
    """Whether a class says that a destination refused a message on arrival."""
    arriving = message_class & (_NEGATIVE | _OF_RECEIVE) == _NEGATIVE
    return arriving and message_class & ~KEPT_THERE not in _NOT_BY_DESTINATION


def is_kept(header: RecordHeader, message_class: int) -> bool:
    """Whether a message becomes a dead letter by an end of that class."""
    if not message_class & _NEGATIVE:
        return False
    if header.copies & COPY_DEAD_LETTER:
        return True
    return is_refusal(message_class) and not header.flags & FLAG_NO_DEAD_LETTER


def code_of(message_class: int) -> str:
    """The stable word for the reason of a refusal."""
    return _ENDS.get(MessageClass(message_class & ~KEPT_THERE), _OTHER).code


def sentence_of(message_class: int) -> str:
    """What a refusal means, for people."""
    return _ENDS.get(MessageClass(message_class & ~KEPT_THERE), _OTHER).sentence


def warn_of_end(
    context: Context, queue: str, message_class: int, *, kept: bool, kept_there: bool = False
) -> None:
    """Tell the operator of a source that a message to `queue` has ended without being received."""
    if not message_class & _NEGATIVE:
        return
    end = _ENDS.get(MessageClass(message_class), _OTHER)
    where = "it is not kept, as its sender wanted"
    if kept:
        name = context.state.queues.numbered(DEAD_TRANSACTIONAL).name
        where = f"it is kept as a dead letter in {name!r}"
    elif kept_there:
        where = "another manager keeps it as a dead letter"
    context.notices.add(end.kind, queue, f"{end.sentence}; {where}")
