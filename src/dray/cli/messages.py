"""How commands show the messages of a queue: each part on its own line, or a large one as one."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec

import dray
from dray.cli.output import print_json, print_table, printable_path
from dray.errors import DrayError
from dray.model.message import Message
from dray.model.queued import QueuedMessage, Wholeness
from dray.model.words import size_text, time_text

Line = dict[str, object]
_COLUMNS = ["position ", "label", "size ", "app specific ", "sent", "id"]


def look_at(
    manager: dray.Manager,
    queues: Sequence[str],
    most: int,
    *,
    after: int = 0,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> list[Line]:
    """The first `most` messages behind a position with a wanted label, queue after queue."""
    lines = (
        describe(queue, message)
        for queue in queues
        for message in _messages(manager.queue(queue, raw=True), after)
        if is_wanted(message.label)
    )
    return list(itertools.islice(lines, most))


def _messages(queue: dray.Queue, after: int) -> Iterator[Message]:
    if not after:
        yield from queue.messages()
        return
    while page := queue.peek_range(after):
        yield from page
        after = page[-1].lookup_id or after


def print_messages(lines: list[Line], *, as_json: bool) -> None:
    """Print one JSON object a line, or a table."""
    if as_json:
        for line in lines:
            print_json(line)
        return
    print_table(_COLUMNS, (_row(line) for line in lines))


def describe(queue: str, message: Message) -> Line:
    """All properties of a message but its body."""
    return {
        "queue": queue,
        "lookup_id": message.lookup_id,
        "id": message.id,
        "label": message.label,
        "size": message.body_size,
        "app_specific": message.app_specific,
        "correlation_id": message.correlation_id,
        "priority": message.priority,
        "recoverable": message.recoverable,
        "message_class": message.message_class.name,
        "transaction_id": message.transaction_id,
        "sent_time": message.sent_time,
        "arrived_time": message.arrived_time,
        "source": message.source,
        "destination": message.destination,
        "extension": base64.b64encode(message.extension).decode(),
        "time_to_reach_queue": message.time_to_reach_queue,
        "time_to_be_received": message.time_to_be_received,
        "administration_queue": message.administration_queue,
        "acknowledge": int(message.acknowledge),
        "response_queue": message.response_queue,
        "use_dead_letter_queue": message.use_dead_letter_queue,
        "use_journal_queue": message.use_journal_queue,
        "traceparent": message.traceparent,
        "first_in_transaction": message.first_in_transaction,
        "last_in_transaction": message.last_in_transaction,
        "abort_count": message.abort_count,
        "move_count": message.move_count,
    }


def _row(line: Line) -> list[str]:
    size, sent = line["size"], line["sent_time"]
    return [
        str(line["lookup_id"]),
        str(line["label"]),
        size_text(size if isinstance(size, int) else 0),
        str(line["app_specific"]),
        time_text(sent if isinstance(sent, float) else None),
        str(line["id"]),
    ]


def values_of(message: QueuedMessage) -> dict[str, object]:
    """All that is known of it, for programs."""
    values = msgspec.structs.asdict(message)
    return values | {"message_class": message.message_class.name, "reason": message.reason}


def file_of(manager: dray.Manager, message: QueuedMessage) -> dict[str, object] | None:
    """Path, size, time and mode of the file that a large message was made of, if it was one."""
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
