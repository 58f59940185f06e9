"""`dray peek`: what is in a queue, message by message, nothing taken."""

from __future__ import annotations

import itertools

import click

from dray.cli.output import print_json, print_table, size_text, time_text
from dray.cli.settings import Settings, everywhere
from dray.model.message import Message


@click.command()
@click.argument("queue")
@click.option(
    "--max", "most", type=click.IntRange(1), default=20, help="Most messages  [default: 20]."
)
@everywhere
@click.pass_obj
def command(settings: Settings, queue: str, *, most: int) -> None:
    """List the first messages of QUEUE; a large message shows as its parts."""
    with settings.connect() as manager:
        messages = manager.queue(queue, raw=True).messages()
        described = [_describe(message) for message in itertools.islice(messages, most)]
    if settings.as_json:
        for line in described:
            print_json(line)
        return
    columns = ["position ", "label", "size ", "app specific ", "sent", "id"]
    print_table(columns, (_row(line) for line in described))


def _describe(message: Message) -> dict[str, object]:
    return {
        "lookup_id": message.lookup_id,
        "id": message.id,
        "label": message.label,
        "size": message.body_size,
        "app_specific": message.app_specific,
        "correlation_id": message.correlation_id,
        "priority": message.priority,
        "recoverable": message.recoverable,
        "transaction_id": message.transaction_id,
        "sent_time": message.sent_time,
        "arrived_time": message.arrived_time,
    }


def _row(line: dict[str, object]) -> list[str]:
    size, sent = line["size"], line["sent_time"]
    return [
        str(line["lookup_id"]),
        str(line["label"]),
        size_text(size if isinstance(size, int) else 0),
        str(line["app_specific"]),
        time_text(sent if isinstance(sent, float) else None),
        str(line["id"]),
    ]
