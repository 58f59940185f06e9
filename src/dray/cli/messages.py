"""How commands list the messages of a queue: each part of a large message on its own line."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.cli.output import print_json, print_table, size_text, time_text
from dray.model.message import Message

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager

Line = dict[str, object]
_COLUMNS = ["position ", "label", "size ", "app specific ", "sent", "id"]


def look_at(manager: Manager, queues: Sequence[str], most: int) -> list[Line]:
    """The first `most` messages of the queues, one queue after the other."""
    lines = (
        _describe(queue, message)
        for queue in queues
        for message in manager.queue(queue, raw=True).messages()
    )
    return list(itertools.islice(lines, min(most, sys.maxsize)))


def print_messages(lines: list[Line], *, as_json: bool, reasons: bool = False) -> None:
    """Print one JSON object a line, or a table; with `reasons`, why each message is there."""
    if as_json:
        for line in lines:
            print_json(line)
        return
    if reasons:
        columns = ["queue", "reason", *_COLUMNS]
        print_table(
            columns,
            ([str(line["queue"]), str(line["message_class"]), *_row(line)] for line in lines),
        )
    else:
        print_table(_COLUMNS, (_row(line) for line in lines))


def _describe(queue: str, message: Message) -> Line:
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
