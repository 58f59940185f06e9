"""Large messages of a queue as Spark reads them: listed, described and opened, but not taken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dray.client.awaited.fragments import Origin
from dray.client.awaited.large_message import open_found
from dray.client.awaited.unreadable import Unreadable
from dray.client.blocking.large_message import LargeMessage
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.client.connections.threads import BlockingRuntime
from dray.errors import MessageNotFound
from dray.model.ids import ManagerId, join_id
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.spark.positions import Range, ranges_of
from dray.spark.schema import TAKEN
from dray.spark.source.ranges import first_message
from dray.wire.large_frames import LargeEntry, LargeFound, LargeList, LargeListed, LargeReceive
from dray.wire.selections import SelectBySequence

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.client.connections.connection import Connection
    from dray.spark.source.offsets import QueuePlace, QueueSpan
    from dray.wire.stream import Frame


def large_pages(queue: Queue, after: int) -> Iterator[list[LargeEntry]]:
    """Large messages that are whole or surely holed and begin behind a position, in order.

    Also those that a transaction holds. A page is as many as one answer lists.
    """
    while entries := _list_large(queue, after):
        yield entries
        if len(entries) < BATCH_MESSAGES_MAX:
            return
        after = entries[-1].first_lookup_id


def _list_large(queue: Queue, after: int) -> list[LargeEntry]:
    _, frame = queue.handle.call(
        lambda number: LargeList(number, after, BATCH_MESSAGES_MAX, held=True),
        LargeListed,
        wait_s=ANSWER_GRACE_S,
    )
    assert isinstance(frame.head, LargeListed)
    return frame.head.entries


def sequence_id_of(entry: LargeEntry) -> str:
    """The sequence id of a listed large message."""
    return join_id(ManagerId(entry.source), entry.sequence)


def describe_large(place: QueuePlace, queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    """One row of `schema.LARGE`. Raises `MessageNotFound` if it is no longer there."""
    row = _row(place, entry, queue.name)
    if entry.missing:
        return row | _describe_holed(place, queue, entry)
    try:
        return row | _describe_whole(queue, entry)
    except Unreadable:
        return row | _describe_unreadable(entry)


def _row(place: QueuePlace, entry: LargeEntry, queue: str) -> dict[str, Any]:
    """The columns that are known of every large message that was listed."""
    return {
        "manager": place.url,
        "manager_id": place.manager_id,
        "queue": queue,
        "queue_born": place.born,
        "first_lookup_id": entry.first_lookup_id,
        "last_lookup_id": entry.last_lookup_id,
        "sequence_id": sequence_id_of(entry),
        "fragment_count": entry.fragment_count,
        "missing": [missing_as_text(each) for each in entry.missing],
        "transaction_size": entry.transaction_size or None,
    }


def _describe_whole(queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    message, ranges = look_at(queue, sequence_id_of(entry))
    return {
        "lookup_ranges": ranges,
        "label": message.label,
        "size": message.size,
        "digest": message.digest.hex(),
        "digest_kind": message.digest_kind,
        "fragments_present": message.fragment_count,
        "app_specific": message.app_specific,
        "correlation_id": message.correlation_id,
        "transaction_id": message.transaction_id,
        "source": message.source,
        "sent_time": time_of(message.sent_time),
        "arrived_time": time_of(message.arrived_time),
    }


def _describe_holed(place: QueuePlace, queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    """The properties in the first available part; the label only if that is the header."""
    first = first_message(queue, place, entry.first_lookup_id - 1)
    if first is None or first["lookup_id"] != entry.first_lookup_id:
        raise MessageNotFound(
            f"large message {sequence_id_of(entry)} left queue {queue.name!r} while it was read"
        )
    has_header = "header" not in entry.missing
    lost = sum(each[1] - each[0] + 1 for each in entry.missing if not isinstance(each, str))
    return {
        "lookup_ranges": [],
        "label": first["label"] if has_header else "",
        "size": entry.size,
        "digest": None,
        "digest_kind": None,
        "fragments_present": max(0, entry.fragment_count - lost),
        "app_specific": None,
        "correlation_id": first["correlation_id"] if has_header else None,
        "transaction_id": first["transaction_id"],
        "source": first["source"],
        "sent_time": first["sent_time"],
        "arrived_time": first["arrived_time"],
    }


def describe_taken(place: QueuePlace, entry: LargeEntry) -> dict[str, Any]:
    """The row of a large message that somebody took while it was read."""
    row = _row(place, entry, place.queue) | _describe_unreadable(entry)
    return row | {"fragments_present": 0, "missing": [TAKEN]}


def describe_range(place: QueuePlace, span: QueueSpan, messages: int) -> dict[str, Any]:
    """The row that stands for a range of small messages: its positions, and how many there are."""
    return {
        "manager": place.url,
        "manager_id": place.manager_id,
        "queue": place.queue,
        "queue_born": place.born,
        "first_lookup_id": span.after + 1,
        "last_lookup_id": span.upto,
        "fragment_count": messages,
    }


def _describe_unreadable(entry: LargeEntry) -> dict[str, Any]:
    """The row of a message that only a newer program can read: nothing from its sender."""
    return {
        "lookup_ranges": [],
        "label": "",
        "size": entry.size,
        "digest": None,
        "digest_kind": None,
        "fragments_present": entry.fragment_count,
        "app_specific": None,
        "correlation_id": None,
        "transaction_id": None,
        "source": entry.source,
        "sent_time": None,
        "arrived_time": None,
    }


def missing_as_text(missing: Any) -> str:
    """One missing part, or range of fragments, as the table has it."""
    if isinstance(missing, str):
        return missing
    first, last = missing
    return str(first) if first == last else f"{first}-{last}"


def time_of(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as a point in time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def look_at(queue: Queue, sequence_id: str) -> tuple[LargeMessage, list[Range]]:
    """A large message to be read without taking it, and the positions of its parts.

    Raises `Unreadable`.
    """
    connection, frame = queue.handle.call(
        lambda number: LargeReceive(number, 0, 0.0, SelectBySequence(sequence_id), peek=True),
        LargeFound,
        wait_s=ANSWER_GRACE_S,
    )
    message, found = opened_in(queue, connection, frame, sequence_id)
    ends = [found.header.lookup_id, *([found.trailer.lookup_id] if found.trailer else [])]
    return message, ranges_of([*ends, *(part.lookup_id for part in found.parts)])


def opened_in(
    queue: Queue, connection: Connection, frame: Frame, sequence_id: str
) -> tuple[LargeMessage, LargeFound]:
    """The large message that an answer names, opened for reading, and the answer itself."""
    found = frame.head
    assert isinstance(found, LargeFound)
    number = queue.handle.opened(connection).number
    origin = Origin(BlockingRuntime(), connection, number, queue.name, sequence_id)
    return LargeMessage(open_found(origin, found, frame.body)), found
