"""How commands list the messages of a queue: each part of a large message on its own line."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dray.cli.output import print_json, print_table
from dray.model.message import Message
from dray.model.words import size_text, time_text

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue

Line = dict[str, object]
_COLUMNS = ["position ", "label", "size ", "app specific ", "sent", "id"]


def look_at(
    manager: Manager,
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


def _messages(queue: Queue, after: int) -> Iterator[Message]:
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
