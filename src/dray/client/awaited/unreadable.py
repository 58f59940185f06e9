"""Large messages that only a newer program can read: found by a receiver, and moved aside."""

from __future__ import annotations

from dray.client.awaited.fragments import Origin
from dray.errors import LargeMessageCorrupt, Misuse
from dray.model.names import parse_queue_address
from dray.wire.frames import Done
from dray.wire.large_frames import LargeMove

SUB_QUEUE = "unreadable"
"""Sub-queue for messages that only a newer receiver can read."""


class Unreadable(Exception):  # noqa: N818 - what is raised to callers is `LargeMessageCorrupt`
    """Header or trailer came as they were sent, and mean nothing to this program."""

    def __init__(self, origin: Origin, why: str, header: int) -> None:
        """Say why, and at which position the header is."""
        super().__init__(why)
        self.origin, self.why, self.header = origin, why, header

    def told(self, fate: str) -> LargeMessageCorrupt:
        """The error for callers; `fate` says where the message is."""
        return LargeMessageCorrupt(
            f"large message {self.origin.sequence_id} cannot be read: {self.why}; {fate}",
            sequence_id=self.origin.sequence_id,
        )

    async def set_aside(self, status_queue: int = 0) -> str:
        """Have it moved to its queue's sub-queue, out of the transaction that holds it.

        Its status message is taken back. Tells where it is then.
        """
        origin = self.origin
        name = f"{parse_queue_address(origin.queue_name).queue};{SUB_QUEUE}"
        if name == origin.queue_name:
            return "it stays first in the queue"
        try:
            target = await origin.connection.open_queue(name)
            moved = await origin.connection.ask(
                LargeMove(origin.queue, self.header, target.number, status_queue, unreadable=True),
                Done,
            )
        except Misuse as error:
            return f"it stays first in the queue, for it cannot be moved to {name!r}: {error}"
        if not moved.count:
            return "it stays first in the queue, for its queue manager does not move it"
        return f"it was moved to {name!r}, and the next receive goes on behind it"
