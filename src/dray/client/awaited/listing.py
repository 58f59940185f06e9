"""Lists of a queue manager: all queues, page by page, and the unfinished uploads of a caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.connections.link import Link
from dray.model.queue import QueueInfo
from dray.wire.large_frames import ListUploads, UploadList
from dray.wire.queue_frames import ListQueues, QueueList

if TYPE_CHECKING:
    from dray.client.files.upload_state import UnfinishedUpload


async def all_queues(link: Link) -> list[QueueInfo]:
    """Ask page after page: between two of them the queue manager answers others."""
    found: list[QueueInfo] = []
    page = await link.ask(ListQueues(), QueueList)
    while page.next:
        found += page.queues
        page = await link.ask(ListQueues(page.next), QueueList)
    return found + page.queues


async def uploads_of(link: Link, queue: int = 0) -> list[UnfinishedUpload]:
    """The unfinished uploads to one queue, by its number, or to all; the oldest first."""
    # Loads what a source is made of, which most programs do without.
    from dray.client.files.upload_state import unfinished_from

    listed = await link.ask(ListUploads(queue), UploadList)
    return [unfinished_from(each) for each in listed.uploads]
