"""Messages that were delivered and wait, in the order queue, for what became of them."""

from __future__ import annotations

from collections.abc import Mapping

from dray.manager.entries import unpack
from dray.manager.queue import ORDER_QUEUE, QueueTable
from dray.wire.peer_frames import StreamRefused, StreamState


class Awaiting:
    """Finds a waiting message by its number."""

    def __init__(self, queues: QueueTable, heard: Mapping[int, int]) -> None:
        """Begin with nothing; `look` when the state is there."""
        self._queues = queues
        self._heard = heard
        self._positions: dict[int, int] = {}
        self._seen = 0
        self.order_acks: dict[int, StreamState | StreamRefused] = {}
        """Order acks, by outgoing queue, that wait for word of messages that they cover."""

    def must_hear_first(self, ack: StreamState | StreamRefused) -> bool:
        """Whether an order ack counts only when word has come of messages that did not enter.

        It is kept until then; the newest says all that earlier ones did.
        """
        if ack.refused > self._heard.get(ack.stream, 0):
            self.order_acks[ack.stream] = ack
            return True
        self.order_acks.pop(ack.stream, None)
        return False

    def look(self) -> None:
        """Learn what has joined the queue."""
        queue = self._queues.get(ORDER_QUEUE)
        if queue is None:
            return
        for packed in queue.index.after(self._seen):
            entry = unpack(packed)
            self._positions[entry.number] = self._seen = entry.lookup_id

    def forget(self, lookup_ids: list[int]) -> None:
        """These are about to leave without having been asked for by number."""
        gone = set(lookup_ids)
        self._positions = {n: at for n, at in self._positions.items() if at not in gone}

    def take(self, number: int) -> bytes | None:
        """The entry of a message that waits; it is about to leave."""
        lookup_id = self._positions.pop(number, None)
        queue = self._queues.get(ORDER_QUEUE)
        return queue.index.find(lookup_id) if queue is not None and lookup_id else None
