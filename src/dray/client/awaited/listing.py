"""The list of all queues, which comes in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.wire.frames import ListQueues, QueueList

if TYPE_CHECKING:
    from dray.client.connections.link import Link
    from dray.model.queue import QueueInfo


async def all_queues(link: Link) -> list[QueueInfo]:
    """Ask page after page: between two of them the queue manager answers others."""
    found: list[QueueInfo] = []
    page = await link.ask(ListQueues(), QueueList)
    while page.next:
        found += page.queues
        page = await link.ask(ListQueues(page.next), QueueList)
    return found + page.queues
