"""The state of a queue in words."""

from __future__ import annotations

import msgspec

from dray.model.queue import DeliveryInfo, QueueInfo, Refusal
from dray.model.words import counted, size_text, time_text

_REFUSED = "refused"


def record_of(info: QueueInfo) -> dict[str, str]:
    """All that is known of a queue, by name."""
    told = {key: str(value) for key, value in msgspec.structs.asdict(info).items()}
    del told["delivery"]
    told["state"] = state_of(info)
    for size in ("byte_count", "journal_bytes", "express_bytes", "quota", "journal_quota"):
        told[size] = size_text(getattr(info, size))
    told["transactional"] = yes_or_no(info.transactional)
    told["digest"] = info.digest or "blake3 (default)"
    told["oldest_time"] = time_text(info.oldest_time)
    if info.delivery is not None:
        told |= _delivery(info.delivery)
    return {key.replace("_", " "): value for key, value in told.items()}


def refusal_text(refusal: Refusal) -> str:
    """Why, how often and since when a destination refuses."""
    # A destination whose disk is full refuses before it has counted a message.
    count = f", {counted(refusal.count)}" if refusal.count else ""
    since = time_text(refusal.since)
    return f"refused ({refusal.code}){count} since {since}: {refusal.sentence}"


def state_of(info: QueueInfo) -> str:
    """The state, and of a refusal the code."""
    refusal = info.delivery.refusal if info.delivery is not None else None
    if refusal is None or info.state != _REFUSED:
        return info.state
    return f"{info.state} ({refusal.code})"


def _delivery(delivery: DeliveryInfo) -> dict[str, str]:
    """The state of the delivery of an outgoing queue, and the history of its connection."""
    told = {key: str(value) for key, value in msgspec.structs.asdict(delivery).items()}
    del told["history"]
    for time in ("next_attempt", "last_ack_time", "next_resend", "silent_since"):
        told[time] = time_text(getattr(delivery, time))
    told["refusal"] = refusal_text(delivery.refusal) if delivery.refusal is not None else "-"
    told["in_flight_bytes"] = size_text(delivery.in_flight_bytes)
    told["sequence_id"] = f"{delivery.sequence_id:#x}"
    for at, change in enumerate(delivery.history, 1):
        times = f", {change.times} times" if change.times > 1 else ""
        reason = f": {change.reason}" if change.reason else ""
        told[f"change {at}"] = f"{time_text(change.until)} {change.state}{times}{reason}"
    return told


def yes_or_no(value: bool) -> str:  # noqa: FBT001 - the value is the thing
    """A flag in a table."""
    return "yes" if value else "no"
