"""Messages that join and leave a queue each second, from two looks at it.

Positions rise by one with each message that joins a queue, so two looks tell how many joined; the
rest of the change in depth has left.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.model.queue import QueueInfo


class Rates(NamedTuple):
    """Messages that joined and left a queue, each second."""

    arriving: float
    leaving: float


def span_of_looks(seconds: float, uptime: float) -> float:
    """The time between two looks, as it counts for rates: not if the queue manager has started.

    A start goes on behind the block of positions that express messages had, so that positions jump.
    """
    return seconds if uptime >= seconds else 0.0


def rates_between(before: QueueInfo | None, now: QueueInfo, seconds: float) -> Rates:
    """The rates between two looks, so many seconds apart; 0 if the queue was made in between.

    `span_of_looks` gives the seconds where the queue manager may have started in between.
    """
    if before is None or before.born != now.born or seconds <= 0:
        return Rates(0.0, 0.0)
    arrived = max(0, now.last_position - before.last_position)
    left = max(0, arrived + before.message_count - now.message_count)
    return Rates(arrived / seconds, left / seconds)
