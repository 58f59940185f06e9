"""Work for others that an event leaves when its own part is done."""

from __future__ import annotations

from collections.abc import Iterator

from dray.delivery.incoming import StreamKey
from dray.manager.queue import QueueTable, StoredQueue
from dray.manager.untold_ends import UntoldEnds
from dray.model.classes import QueueKind


class FollowUp:
    """Noted while an event is decided about; the end of the turn goes through it."""

    def __init__(self, queues: QueueTable) -> None:
        """Begin with what a start leaves: any queue that goes may have lost its last use."""
        self.touched: dict[int, StoredQueue] = {}
        """Queues in which something became available during this turn."""
        self.to_tell: dict[StreamKey, None] = {}
        """Streams whose sources have news; they are told last in a turn, after any order ack."""
        self.untold_ends = UntoldEnds()
        """Messages of other managers that ended, until the managers are told how many."""
        self.perhaps_unused: dict[int, None] = {
            each.number: None for each in queues if each.kind in (QueueKind.SUB, QueueKind.OUTGOING)
        }
        """Sub-queues and outgoing queues, by number, that may have lost their last use."""
        self.tried = QueuesMade()
        """Outgoing queues that have carried nothing yet; a start drops those that there were."""
        self.made = QueuesMade()
        """Queues and sub-queues; those that were deleted are forgotten when it matters."""

    def touch(self, queue: StoredQueue) -> None:
        """Note that waiting receivers, or the queue's stream, may go on."""
        self.touched[queue.number] = queue


class QueuesMade:
    """Queues by the caller that made each, since the start."""

    def __init__(self) -> None:
        self._of: dict[str, set[int]] = {}
        self._made_by: dict[int, str] = {}

    def __len__(self) -> int:
        """How many are known, of all callers."""
        return len(self._made_by)

    def add(self, place: str, number: int) -> None:
        """A caller has made a queue."""
        self._made_by[number] = place
        self._of.setdefault(place, set()).add(number)

    def forget(self, number: int) -> None:
        """A queue counts for its caller no more."""
        place = self._made_by.pop(number, None)
        if place is not None:
            self._of[place].discard(number)
            if not self._of[place]:
                del self._of[place]

    def __iter__(self) -> Iterator[int]:
        """The numbers of all of them."""
        return iter(list(self._made_by))

    def count(self, place: str) -> int:
        """How many a caller has made."""
        return len(self._of.get(place, ()))

    def of(self, place: str) -> list[int]:
        """The queues of a caller."""
        return list(self._of.get(place, ()))
