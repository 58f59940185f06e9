"""The unfinished uploads of a caller to all queues of a queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.wire.large_frames import ListUploads, UploadList

if TYPE_CHECKING:
    from dray.client.connections.link import Link
    from dray.client.files.upload_state import UnfinishedUpload


async def uploads_of(link: Link, queue: int = 0) -> list[UnfinishedUpload]:
    """The unfinished uploads to one queue, by its number, or to all; the oldest first."""
    # Loads what a source is made of, which most programs do without.
    from dray.client.files.upload_state import unfinished_from

    listed = await link.ask(ListUploads(queue), UploadList)
    return [unfinished_from(each) for each in listed.uploads]
