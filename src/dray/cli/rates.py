"""Depths and rates of queues, from two looks at them.

Positions rise by one with each message that joins a queue, so two looks tell how many joined; the
rest of the change in depth has left.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from dray.errors import QueueNotFound
from dray.model.classes import QueueKind
from dray.model.limits import KIB
from dray.wire.frames import RANGE_ROW, MeasureRange, RangeMeasured, RangeRead, ReadRange

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue
    from dray.model.queue import QueueInfo

_MICROSECONDS = 1e6
_ARRIVED = 3
"""The place of the time of arrival in a row."""


class Look(NamedTuple):
    """One queue at one moment. Times in seconds since the epoch."""

    info: QueueInfo
    reached: int
    """The last position that was ever taken, as far as one can see."""
    oldest: float | None
    """When its first message arrived."""
    when: float


class Rates(NamedTuple):
    """Messages that joined and left a queue, each second."""

    arriving: float
    leaving: float


def look_at_all(manager: Manager, kinds: frozenset[QueueKind]) -> dict[str, Look]:
    """Look at the queues of some kinds; a queue that is deleted meanwhile is left out."""
    looks = {}
    for info in manager.queues():
        if info.kind not in kinds:
            continue
        queue = manager.queue(info.name)
        try:
            looks[info.name] = Look(queue.info(), *_ends(queue), time.time())
        except QueueNotFound:
            continue
    return looks


def rates_between(before: Look | None, now: Look) -> Rates:
    """The rates between two looks; a queue that was created meanwhile began empty."""
    if before is None or before.info.born != now.info.born or now.when <= before.when:
        return Rates(0.0, 0.0)
    arrived = max(0, now.reached - before.reached)
    left = max(0, arrived + before.info.message_count - now.info.message_count)
    seconds = now.when - before.when
    return Rates(arrived / seconds, left / seconds)


def _ends(queue: Queue) -> tuple[int, float | None]:
    _, frame = queue.handle.call(lambda number: MeasureRange(number, 0), RangeMeasured)
    measured = frame.head
    assert isinstance(measured, RangeMeasured)
    _, frame = queue.handle.call(
        lambda number: ReadRange(number, 0, 0, 1, KIB, bodies=False), RangeRead
    )
    first = frame.head
    assert isinstance(first, RangeRead)
    oldest = RANGE_ROW.unpack_from(first.rows)[_ARRIVED] / _MICROSECONDS if first.rows else None
    return max(measured.last, measured.gone), oldest
