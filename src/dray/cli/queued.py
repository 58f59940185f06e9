"""How commands show what is in a queue, a large message as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dray.cli.output import size_text, time_text

if TYPE_CHECKING:
    from dray.model.queued import QueuedMessage


def values_of(message: QueuedMessage) -> dict[str, object]:
    """All that is known of it, for programs."""
    values = msgspec.structs.asdict(message)
    return values | {"message_class": message.message_class.name, "reason": message.reason}


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
