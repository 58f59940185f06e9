"""Negative ends of messages: which become dead letters unasked, and what the operator reads.

    use_dead_letter_queue    refused by its destination    any other negative end
    True                     dead letter                   dead letter
    None, the default        dead letter                   -
    False                    -                             -

A refusal is the destination's word that a message may never enter: there is no such queue, it is
full or of the wrong kind, nobody may send there, or too many managers have forwarded the message.
An expiry is what the sender asked for, and a purge, a deletion or a rejection is somebody's will.

The operator of the source reads of every end. A source that is another manager is told of it by a
confirmation if the sender asked for anything, and else by a count (`untold_ends.py`).
Every case is a row of docs/explanation/negative-ends.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from dray.delivery.incoming import StreamKey
from dray.errors import AccessDenied, NotTransactional, QueueNotFound, QuotaExceeded
from dray.manager.context import Context
from dray.manager.entries import routes_in
from dray.manager.notices import NoticeKind
from dray.manager.queue import StoredQueue
from dray.model.classes import MessageClass
from dray.wire.record import COPY_DEAD_LETTER, FLAG_NO_DEAD_LETTER, RecordHeader

_NEGATIVE = 0x8000
_OF_RECEIVE = 0x4000
_NOT_BY_DESTINATION = (MessageClass.NACK_PURGED, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
_CLASS: Final = 0xFFFF
KEPT_THERE: Final = 0x10000
"""Beside the class that a source is told: a manager on the way has it among its dead letters."""
DAMAGED_THERE: Final = 0x20000
"""Beside the class of a count: the message was damaged, and moved to quarantine where it was."""


class _End(NamedTuple):
    """The end of a message, for the operator of its source."""

    kind: NoticeKind
    sentence: str
    code: str = ""
    """For a refusal: the code of the error that a local sender would have had."""


_ENDS: Final[dict[int, _End]] = {
    MessageClass.NACK_BAD_DST_Q: _End(
        NoticeKind.REFUSED_NO_QUEUE,
        "the destination refused a message because it has no such queue; create the queue there"
        " or correct the name",
        QueueNotFound.code,
    ),
    MessageClass.NACK_Q_EXCEED_QUOTA: _End(
        NoticeKind.REFUSED_FULL,
        "the destination refused a message because the queue there is full; receive from it or"
        " raise its quota",
        QuotaExceeded.code,
    ),
    MessageClass.NACK_ACCESS_DENIED: _End(
        NoticeKind.REFUSED_ACCESS,
        "the destination refused a message because this manager may not send to that queue",
        AccessDenied.code,
    ),
    MessageClass.NACK_HOP_COUNT_EXCEEDED: _End(
        NoticeKind.REFUSED_HOPS,
        "a message was refused because too many managers had forwarded it; look for a circle in"
        " the routes",
        "hop-count-exceeded",
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: _End(
        NoticeKind.REFUSED_KIND,
        "the destination refused a message because it was sent in a transaction and the queue"
        " there is not transactional",
        NotTransactional.code,
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: _End(
        NoticeKind.REFUSED_KIND,
        "the destination refused a message because it was sent outside a transaction and the"
        " queue there is transactional",
        NotTransactional.code,
    ),
    MessageClass.NACK_PURGED: _End(
        NoticeKind.ENDED_PURGED, "a message was purged before it was delivered"
    ),
    MessageClass.NACK_Q_PURGED: _End(
        NoticeKind.ENDED_PURGED, "a message was purged from its queue before it was received"
    ),
    MessageClass.NACK_Q_DELETED: _End(
        NoticeKind.ENDED_DELETED, "a message was deleted with its queue"
    ),
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: _End(
        NoticeKind.ENDED_EXPIRED, "a message expired before it was delivered"
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT: _End(
        NoticeKind.ENDED_EXPIRED, "a message expired in its queue before it was received"
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: _End(
        NoticeKind.ENDED_IN_DOUBT,
        "the destination of a message did not say in time whether the message was received",
    ),
    MessageClass.NACK_RECEIVE_REJECTED: _End(
        NoticeKind.ENDED_REJECTED, "a receiver rejected a message"
    ),
}
_DAMAGED: Final = _End(
    NoticeKind.ENDED_DAMAGED,
    "a message was damaged in its queue; its queue manager has moved it to quarantine",
)
_OTHER: Final = _End(NoticeKind.ENDED_OTHERWISE, "a message could not be delivered")


def is_refusal(message_class: int) -> bool:
    """Whether a class says that a destination refused a message on arrival."""
    arriving = message_class & (_NEGATIVE | _OF_RECEIVE) == _NEGATIVE
    return arriving and message_class & _CLASS not in _NOT_BY_DESTINATION


def is_kept(header: RecordHeader) -> bool:
    """Whether a message becomes a dead letter where its destination has refused it."""
    return bool(header.copies & COPY_DEAD_LETTER) or not header.flags & FLAG_NO_DEAD_LETTER


def is_counted_end(message_class: int) -> bool:
    """Whether a source may be told by a count of messages that ended with a class."""
    known = message_class & _CLASS in _ENDS
    beside = message_class & ~(_CLASS | KEPT_THERE | DAMAGED_THERE)
    return known and not beside and not is_refusal(message_class & _CLASS)


def refusal_code(message_class: int) -> str:
    """The stable word for the reason of a refusal."""
    return _end(message_class).code


def refusal_sentence(message_class: int) -> str:
    """The meaning of a refusal, for people."""
    return _end(message_class).sentence


def _end(message_class: int) -> _End:
    if message_class & DAMAGED_THERE:
        return _DAMAGED
    return _ENDS.get(message_class & _CLASS, _OTHER)


def warn_of_end(
    context: Context,
    queue: str,
    message_class: int,
    *,
    kept_in: int = 0,
    kept_there: bool = False,
    came_late: bool = False,
    times: int = 1,
) -> None:
    """Tell the operator of a source that messages to `queue` have ended without being received.

    `kept_in` is the number of the dead-letter queue that has them, if one has. `came_late` if
    nothing waited for word of them: a dead letter in doubt may be there, or never was asked for.
    """
    if not message_class & _NEGATIVE:
        return
    end = _end(message_class)
    where = "it is not kept as a dead letter"
    if kept_in:
        name = context.state.queues.numbered(kept_in).name
        where = f"it is kept as a dead letter in {name!r}"
    elif kept_there:
        where = "another manager keeps it as a dead letter"
    elif came_late:
        where = "it is not kept as a dead letter, unless an earlier warning said so"
    elif message_class & DAMAGED_THERE:
        where = "look at it there"
    context.notices.add(end.kind, queue, f"{end.sentence}; {where}", times)


def note_ends(
    context: Context, queue: StoredQueue, message_class: int, *, route: int, count: int
) -> None:
    """Messages of a queue have ended, of which their senders asked nothing.

    Messages that came by a route are counted for their source; the others warn the operator now.
    """
    if not route:
        warn_of_end(context, queue.name, message_class, times=count)
        return
    came_by = context.state.arrival_routes.numbered(route)
    if came_by is None:
        # Nobody is left to be told: it is forgotten when its stream has ended.
        return
    key = StreamKey(came_by.source, came_by.stream)
    if not context.state.outbox.has_ended(key):
        context.follow_up.untold_ends.add(key, message_class, count, came_by.told_origin)


def held_by_route(queues: Iterable[StoredQueue]) -> Counter[tuple[StoredQueue, int]]:
    """The number of messages that queues hold, by queue and route."""
    found: Counter[tuple[StoredQueue, int]] = Counter()
    for queue in queues:
        for run in queue.index.runs():
            for route, count in Counter(routes_in(run)).items():
                found[queue, route] += count
    return found
