"""The two queues of the sample: made when they are missing, emptied only when somebody asks."""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.aio import Manager
from dray.errors import QueueNotFound

QUEUE: Final = "largemessageq"
STATUS_QUEUE: Final = "statusq"


class QueueColumn(NamedTuple):
    """The middle column: how many messages there are, None if the queue is missing."""

    messages: int | None
    large: int = 0
    size: int = 0


async def make_missing(manager: Manager) -> None:
    """Make the two queues if they are not there; nothing in them is touched."""
    for name in (QUEUE, STATUS_QUEUE):
        await manager.create_queue(name, exist_ok=True)


async def column(manager: Manager) -> QueueColumn:
    """The number of parts in the queue."""
    try:
        info = await manager.queue(QUEUE).info()
    except QueueNotFound:
        return QueueColumn(None)
    return QueueColumn(info.message_count, info.large_count, info.byte_count)


async def counts(manager: Manager) -> dict[str, int]:
    """The messages that would go with the queues, by queue."""
    found: dict[str, int] = {}
    for name in (QUEUE, STATUS_QUEUE):
        try:
            found[name] = (await manager.queue(name).info()).message_count
        except QueueNotFound:
            continue
    return found


async def start_afresh(manager: Manager) -> None:
    """Delete both queues with everything in them, and make them again."""
    for name in (QUEUE, STATUS_QUEUE):
        try:
            await manager.delete_queue(name)
        except QueueNotFound:
            continue
    await make_missing(manager)
