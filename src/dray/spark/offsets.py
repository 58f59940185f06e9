"""How far a query has read: for every queue of every manager, a lookup id.

Spark keeps offsets as JSON in its checkpoint: `{manager id: {queue: lookup id}}`. The lookup id is
that of the last message read; of a large message, that of its first part, since large messages are
listed in the order in which they began. A queue that is not named has not been read from.

Spark accepts offsets that go backwards without a word, so that is watched here.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

Offsets = dict[str, dict[str, int]]


class Span(NamedTuple):
    """What one micro-batch reads of one queue: positions over `after`, up to and with `upto`."""

    manager_id: str
    queue: str
    after: int
    upto: int


def check_offsets(value: Any) -> Offsets:
    """Give `value` if it has the form of offsets; raises `ValueError`."""
    if not isinstance(value, dict):
        raise ValueError(f"offsets are an object, not {value!r}")  # noqa: TRY004 - bad JSON, not a bad call
    for manager_id, queues in value.items():
        if not isinstance(queues, dict):
            raise ValueError(f"the offsets of {manager_id!r} are no object")  # noqa: TRY004 - see above
        for queue, position in queues.items():
            if not isinstance(position, int) or isinstance(position, bool) or position < 0:
                raise ValueError(f"the offset of {queue!r} is {position!r}")
    return value


def position_in(offsets: Offsets, manager_id: str, queue: str) -> int:
    """The position reached in one queue; 0 is before its first message."""
    return offsets.get(manager_id, {}).get(queue, 0)


def with_position(offsets: Offsets, manager_id: str, queue: str, position: int) -> Offsets:
    """The same offsets with one queue at `position`."""
    return {**offsets, manager_id: {**offsets.get(manager_id, {}), queue: position}}


def spans(start: Offsets, end: Offsets) -> Iterator[Span]:
    """What lies between two offsets, queue by queue."""
    for manager_id, queues in end.items():
        for queue, upto in queues.items():
            after = position_in(start, manager_id, queue)
            if upto > after:
                yield Span(manager_id, queue, after, upto)


def lost(start: Offsets, known: Container[tuple[str, str]]) -> list[str]:
    """What `start` names and nobody knows any more; `known` holds (manager id, queue)."""
    return [
        f"queue {queue!r} of manager {manager_id}"
        for manager_id, queues in start.items()
        for queue in queues
        if (manager_id, queue) not in known
    ]


def went_back(start: Offsets, end: Offsets) -> list[str]:
    """Queues whose position in `end` is before that in `start`, in words."""
    return [
        f"queue {queue!r} of manager {manager_id} from {position} to"
        f" {position_in(end, manager_id, queue)}"
        for manager_id, queues in start.items()
        for queue, position in queues.items()
        if position_in(end, manager_id, queue) < position
    ]
