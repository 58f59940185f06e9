"""How commands show what is in a queue, a large message as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dray.cli.output import printable_path
from dray.errors import DrayError
from dray.model.queued import Wholeness
from dray.model.words import size_text, time_text

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager
    from dray.model.queued import QueuedMessage


def values_of(message: QueuedMessage) -> dict[str, object]:
    """All that is known of it, for programs."""
    values = msgspec.structs.asdict(message)
    return values | {"message_class": message.message_class.name, "reason": message.reason}


def file_of(manager: Manager, message: QueuedMessage) -> dict[str, object] | None:
    """Path, size, time and mode of the file that a large message was made of, if it was one."""
    import dray

    if not message.parts or message.wholeness is not Wholeness.WHOLE:
        return None
    large = dray.LargeMessageQueue(manager.queue(message.queue, raw=True))
    try:
        with large.peek_by_id(message.id) as opened:
            file = opened.file
    except DrayError:
        # Somebody has received it just now, or its header is damaged; a receiver is told.
        return None
    if file is None:
        return None
    return msgspec.structs.asdict(file) | {"path": printable_path(file.path)}


def row_of(message: QueuedMessage) -> dict[str, str]:
    """All that is known of it, for people."""
    told = values_of(message)
    told["size"] = f"{size_text(message.size)} ({message.size:,} bytes)"
    for time in ("sent_time", "arrived_time"):
        told[time] = time_text(getattr(message, time))
    if not message.parts:
        del told["parts"], told["parts_in_all"], told["wholeness"]
    return {
        name.replace("_", " "): str(value)
        for name, value in told.items()
        if value not in (None, "")
    }
