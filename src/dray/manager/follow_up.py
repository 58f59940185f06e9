"""Work for others that an event leaves when its own part is done."""

from __future__ import annotations

from dray.delivery.incoming import StreamKey
from dray.manager.queue import QueueTable, StoredQueue
from dray.manager.untold_ends import UntoldEnds
from dray.model.classes import QueueKind
from dray.model.places import Places


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
        self.tried: Places[int] = Places()
        """Outgoing queues that carried nothing, by the caller that made each since the start."""
        self.made: Places[int] = Places()
        """The same of all queues; those that were deleted are forgotten when it matters."""

    def touch(self, queue: StoredQueue) -> None:
        """Note that waiting receivers, or the queue's stream, may go on."""
        self.touched[queue.number] = queue
