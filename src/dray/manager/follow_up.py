"""Work for others that an event leaves when its own part is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.model.classes import QueueKind

if TYPE_CHECKING:
    from dray.delivery.incoming import StreamKey
    from dray.manager.queue.queues import QueueTable, StoredQueue


class FollowUp:
    """Noted while an event is decided about; the end of the turn goes through it."""

    def __init__(self, queues: QueueTable) -> None:
        """Begin with what a start leaves: any sub-queue may have lost its last use."""
        self.touched: dict[int, StoredQueue] = {}
        """Queues in which something became available during this turn."""
        self.to_tell: dict[StreamKey, None] = {}
        """Streams whose sources have news; they are told last in a turn, after any order ack."""
        self.perhaps_unused: dict[int, None] = {
            each.number: None for each in queues if each.kind is QueueKind.SUB
        }
        """Sub-queues, by number, that may have lost their last use."""

    def __bool__(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.touched or self.to_tell or self.perhaps_unused)
