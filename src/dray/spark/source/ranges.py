"""Ranges of a queue, as a reader by position asks for them; nothing is taken.

`measure` says how far a queue can be read. It ends before the first message that a transaction
holds, since that one may come back. The reader also reads measured messages that a transaction has
taken meanwhile: `planned_pieces` counts them, `pages` gives them, and for large messages `is_there`
waits for the transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.client.calls.requests import ANSWER_GRACE_S
from dray.errors import StoreError
from dray.model.limits import BATCH_MESSAGES_MAX, FRAME_BODY_BYTES_MAX
from dray.spark.source.columns import MessageColumns
from dray.spark.source.offsets import check_birth
from dray.wire.range_frames import (
    MeasureRange,
    RangeMeasured,
    RangePiece,
    RangeRead,
    ReadRange,
)

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.spark.source.offsets import QueueBirth, QueuePlace

logger = logging.getLogger(__name__)

_PAUSE_S = 0.3


class Page(NamedTuple):
    """Messages of a range, and the birth number of their queue."""

    born: int
    messages: MessageColumns


def measure(
    queue: Queue,
    after: int,
    *,
    upto: int | None = None,
    rows_max: int | None = None,
    bytes_max: int | None = None,
    pieces: int = 0,
    large: bool = False,
    plain: bool = False,
    planned: bool = False,
    receipt: bytes = b"",
) -> RangeMeasured:
    """The range of a queue that can be read behind a position, by one request.

    `receipt` is that of an earlier answer: the queue manager notices if its store was put back
    since, and gives the queue a new birth number.
    """
    _, frame = queue.handle.call(
        lambda number: MeasureRange(
            number,
            after,
            upto or 0,
            rows_max or 0,
            bytes_max or 0,
            pieces,
            large,
            plain,
            planned,
            receipt,
        ),
        RangeMeasured,
        wait_s=ANSWER_GRACE_S,
    )
    assert isinstance(frame.head, RangeMeasured)
    return frame.head


def check_still(queue: Queue, birth: QueueBirth, receipt: bytes) -> None:
    """Raise `QueueRecreated` if a queue is not the one that was read any more.

    Also if its store was put back since the queue manager gave the receipt, which may be empty.
    """
    check_birth(birth._replace(born=measure(queue, 0, receipt=receipt).born), birth.born)


def planned_pieces(
    queue: Queue, after: int, upto: int, pieces: int, *, large: bool = False, plain: bool = False
) -> list[RangePiece]:
    """All messages of a range that the query will read, in so many pieces or fewer.

    Also those that a transaction holds by now. One answer counts a bounded number.
    """
    found: list[RangePiece] = []
    while after < upto:
        answer = measure(
            queue, after, upto=upto, pieces=pieces, large=large, plain=plain, planned=True
        )
        if not answer.pieces:
            break
        found += answer.pieces
        after = found[-1].upto
    size = -(-len(found) // pieces) or 1
    return [_joined(found[at : at + size]) for at in range(0, len(found), size)]


def _joined(pieces: list[RangePiece]) -> RangePiece:
    messages, size = sum(each.messages for each in pieces), sum(each.size for each in pieces)
    return RangePiece(pieces[-1].upto, messages, size)


def pages(
    queue: Queue, after: int, upto: int, *, bodies: bool, plain: bool = False
) -> Iterator[Page]:
    """All messages behind `after`, up to and with `upto`, in pages; the last page is empty.

    With `plain`, parts of large messages are left out.
    """
    while True:
        page = _read(queue, after, upto, BATCH_MESSAGES_MAX, bodies=bodies, plain=plain)
        yield page
        if not page.messages:
            return
        after = page.messages.last
        if after >= upto:
            return


def first_message(queue: Queue, place: QueuePlace, after: int) -> dict[str, Any] | None:
    """The row of the first message behind a position, without its body, held or not."""
    messages = _read(queue, after, 0, 1, bodies=False).messages
    return messages.batch(place).to_pylist()[0] if messages else None


def first_after(queue: Queue, position: int) -> int | None:
    """The first position behind `position` with a message."""
    messages = _read(queue, position, 0, 1, bodies=False).messages
    return messages.last if messages else None


def is_there(queue: Queue, first_lookup_id: int, patience_s: float) -> bool:
    """Whether the large message at a position is in the queue; waits while a transaction holds it.

    A transaction that holds it for longer than `patience_s` seconds is named in a warning.
    """
    begun = warned = time.monotonic()
    while True:
        found = measure(queue, first_lookup_id - 1, upto=first_lookup_id, large=True)
        if found.held != first_lookup_id:
            return found.last == first_lookup_id
        if time.monotonic() - warned > patience_s:
            warned = time.monotonic()
            warn_of_claim(queue.name, first_lookup_id, warned - begun)
        time.sleep(_PAUSE_S)


def warn_of_claim(queue: str, position: int, seconds: float) -> None:
    """Say that nothing behind a claimed message is read, and why."""
    logger.warning(
        "a receiver has held the message at position %d of queue %r for %.0f s; Spark reads no"
        " further until the receiver commits or aborts",
        position,
        queue,
        seconds,
    )


def tell_gone(sentence: str, *, fail: bool) -> None:
    """Raise `StoreError`, or warn, for messages that left a queue before the query read them."""
    told = f"{sentence}: taken by another consumer, expired or purged"
    if fail:
        raise StoreError(
            f"{told}; give the queue one reader, or set failOnDataLoss to false to go on without"
            " such messages"
        )
    logger.warning("%s", told)


def _read(
    queue: Queue, after: int, upto: int, max_messages: int, *, bodies: bool, plain: bool = False
) -> Page:
    _, frame = queue.handle.call(
        lambda number: ReadRange(
            number, after, upto, max_messages, FRAME_BODY_BYTES_MAX, bodies, plain
        ),
        RangeRead,
        wait_s=ANSWER_GRACE_S,
    )
    head = frame.head
    assert isinstance(head, RangeRead)
    return Page(head.born, MessageColumns(head, frame.body, whole=bodies))
