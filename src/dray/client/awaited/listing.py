"""The list of all queues, which comes in pages."""

from __future__ import annotations

from dray.client.connections.link import Link
from dray.model.queue import QueueInfo
from dray.wire.queue_frames import ListQueues, QueueList


async def all_queues(link: Link) -> list[QueueInfo]:
    """Ask page after page: between two of them the queue manager answers others."""
    found: list[QueueInfo] = []
    page = await link.ask(ListQueues(), QueueList)
    while page.next:
        found += page.queues
        page = await link.ask(ListQueues(page.next), QueueList)
    return found + page.queues
