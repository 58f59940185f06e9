"""The offset of a query: for every queue of every manager, its birth number and a lookup id.

Spark keeps offsets as JSON in its checkpoint:

    {manager id: {queue: {"born": birth number, "lookup_id": lookup id}}}

The lookup id is that of the last message read; of a large message, that of its first part, since
large messages are listed in the order in which they began. A queue that is not named has not been
read from. A position belongs to one birth of a queue: if the queue was deleted and made again, the
birth numbers differ, and the position says nothing of the new queue.

If a message behind the lookup id had left the queue when the offset was made, the offset also has
`"gone"`, the last such position. A message that leaves later is then noticed.

`"receipt"` is what the queue manager gave when the offset was made (`delivery/receipts.py`), in
hexadecimal. The query states it when it goes on. So the queue manager notices if its store was put
back since, and positions stand for other messages: then it gives its queues new birth numbers.

Spark accepts offsets that go backwards without a word, so that is watched here.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any, NamedTuple, NotRequired, TypedDict

from dray.errors import QueueRecreated
from dray.model.limits import MESSAGE_NUMBER_MAX, RECEIPT_BYTES


class Offset(TypedDict):
    """The offset of one queue."""

    born: int
    lookup_id: int
    gone: NotRequired[int]
    receipt: NotRequired[str]


Offsets = dict[str, dict[str, Offset]]
_PARTS = {"born", "lookup_id"}
_MORE_PARTS = {"gone", "receipt"}
_RECEIPT = re.compile(rf"[0-9a-f]{{{2 * RECEIPT_BYTES}}}")


class QueueBirth(NamedTuple):
    """A queue of a manager, from its making to its deletion."""

    manager_id: str
    queue: str
    born: int


class QueuePlace(NamedTuple):
    """One birth of a queue, and where its manager is."""

    url: str
    manager_id: str
    queue: str
    born: int

    @property
    def birth(self) -> QueueBirth:
        """The queue, and its birth."""
        return QueueBirth(self.manager_id, self.queue, self.born)


class QueueSpan(NamedTuple):
    """The range of one birth of a queue in a micro-batch: positions over `after`, up to `upto`."""

    manager_id: str
    queue: str
    born: int
    after: int
    upto: int


def check_offsets(value: Any) -> Offsets:
    """Give `value` if it has the form of offsets; raises `ValueError`."""
    if not isinstance(value, dict):
        raise ValueError(f"offsets are an object, not {value!r}")  # noqa: TRY004 - bad JSON, not a bad call
    for manager_id, queues in value.items():
        if not isinstance(queues, dict):
            raise ValueError(f"the offsets of {manager_id!r} are no object")  # noqa: TRY004 - see above
        for queue, offset in queues.items():
            if isinstance(offset, int):
                raise ValueError(  # noqa: TRY004 - see above
                    f"the offset of {queue!r} is {offset!r}, without the birth number of the queue"
                )
            if not isinstance(offset, dict) or not _PARTS <= set(offset) <= _PARTS | _MORE_PARTS:
                raise ValueError(f"the offset of {queue!r} is {offset!r}")
            for name, part in offset.items():
                if not _is_receipt(part) if name == "receipt" else not _is_number(part):
                    raise ValueError(f"the offset of {queue!r} is {offset!r}")
    return value


def _is_receipt(part: object) -> bool:
    return isinstance(part, str) and _RECEIPT.fullmatch(part) is not None


def _is_number(part: object) -> bool:
    return type(part) is int and 0 <= part <= MESSAGE_NUMBER_MAX


def position_in(offsets: Offsets, birth: QueueBirth) -> int:
    """The position reached in one birth of a queue; 0 is before its first message."""
    offset = offsets.get(birth.manager_id, {}).get(birth.queue)
    return offset["lookup_id"] if offset is not None and offset["born"] == birth.born else 0


def has_position(offsets: Offsets, birth: QueueBirth) -> bool:
    """Whether offsets name one birth of a queue."""
    offset = offsets.get(birth.manager_id, {}).get(birth.queue)
    return offset is not None and offset["born"] == birth.born


def gone_in(offsets: Offsets, birth: QueueBirth) -> int:
    """The last position that a message had left when an offset was made."""
    if not has_position(offsets, birth):
        return 0
    offset = offsets[birth.manager_id][birth.queue]
    return offset.get("gone", offset["lookup_id"])


def receipt_in(offsets: Offsets, birth: QueueBirth) -> bytes:
    """The receipt of the queue manager in an offset; empty if there is none."""
    if not has_position(offsets, birth):
        return b""
    return bytes.fromhex(offsets[birth.manager_id][birth.queue].get("receipt", ""))


def with_position(
    offsets: Offsets, birth: QueueBirth, position: int, *, gone: int = 0, receipt: bytes = b""
) -> Offsets:
    """The same offsets with one birth of a queue at `position`, and `gone` if it is behind it."""
    manager_id, queue, born = birth
    offset: Offset = {"born": born, "lookup_id": position}
    if gone > position:
        offset["gone"] = gone
    if receipt:
        offset["receipt"] = receipt.hex()
    return {**offsets, manager_id: {**offsets.get(manager_id, {}), queue: offset}}


def spans(start: Offsets, end: Offsets) -> Iterator[QueueSpan]:
    """The ranges between two offsets, queue by queue."""
    for manager_id, queues in end.items():
        for queue, offset in queues.items():
            born, upto = offset["born"], offset["lookup_id"]
            after = position_in(start, QueueBirth(manager_id, queue, born))
            if upto > after:
                yield QueueSpan(manager_id, queue, born, after, upto)


def lost(start: Offsets, known: Container[tuple[str, str]]) -> list[str]:
    """Queues in `start` that no longer exist; `known` holds (manager id, queue)."""
    return [
        f"queue {queue!r} of manager {manager_id}"
        for manager_id, queues in start.items()
        for queue in queues
        if (manager_id, queue) not in known
    ]


def check_birth(birth: QueueBirth, expected: int) -> None:
    """Raise `QueueRecreated` if the queue is another one than the one that was read from."""
    if birth.born != expected:
        raise QueueRecreated(
            f"queue {birth.queue!r} of manager {birth.manager_id} was deleted and made again, or"
            " restored from a backup, since it was read; to begin the new queue at its first"
            " position, set acceptNewQueue to true, or accept_new_queue (--accept-new-queue) of a"
            " landing",
            queue=birth.queue,
            born=birth.born,
            expected=expected,
        )


def went_back(start: Offsets, end: Offsets) -> list[str]:
    """Queues whose position in `end` is before that in `start`, in words."""
    back = []
    for manager_id, queues in start.items():
        for queue, offset in queues.items():
            before, begun = offset["lookup_id"], {"born": offset["born"], "lookup_id": 0}
            reached = end.get(manager_id, {}).get(queue, begun)
            if reached["born"] == offset["born"] and reached["lookup_id"] < before:
                back.append(
                    f"queue {queue!r} of manager {manager_id} from {before} to"
                    f" {reached['lookup_id']}"
                )
    return back
