"""`dray deadletter`: messages that were not delivered or received, and why."""

from __future__ import annotations

import click

from dray.cli.groups import CommandGroup
from dray.cli.messages import look_at, print_messages
from dray.cli.output import print_json, print_table, size_text
from dray.cli.settings import Settings, takes_most, takes_url_and_json
from dray.model.names import DEAD_LETTER_QUEUES


@click.group(cls=CommandGroup)
def command() -> None:
    """Look at the two dead-letter queues: one for plain, one for transactional messages."""


@command.command(name="list")
@takes_url_and_json
@click.pass_obj
def list_queues(settings: Settings) -> None:
    """List both dead-letter queues and their contents."""
    with settings.connect() as manager:
        found = [manager.queue(name).info() for name in DEAD_LETTER_QUEUES]
    if settings.as_json:
        told = ("name", "message_count", "byte_count")
        print_json([{name: getattr(info, name) for name in told} for info in found])
        return
    rows = ([info.name, str(info.message_count), size_text(info.byte_count)] for info in found)
    print_table(["queue", "messages ", "size "], rows)


@command.command()
@takes_most("messages to list", 20)
@takes_url_and_json
@click.pass_obj
def show(settings: Settings, most: int) -> None:
    """List the first messages of both dead-letter queues, each with its reason."""
    with settings.connect() as manager:
        lines = look_at(manager, DEAD_LETTER_QUEUES, most)
    print_messages(lines, as_json=settings.as_json, reasons=True)
