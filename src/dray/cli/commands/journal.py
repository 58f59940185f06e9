"""`dray journal`: copies of received messages, and the source journal of sent ones."""

from __future__ import annotations

from typing import Any

import click

from dray.cli.messages import look_at, print_messages
from dray.cli.settings import CommandGroup, Settings, takes_most, takes_url_and_json
from dray.model.names import SYSTEM_JOURNAL
from dray.model.words import size_text


@click.group(cls=CommandGroup)
def command() -> None:
    """Look at journals: copies of the messages that were received, or sent from here."""


@command.command(name="list")
@takes_url_and_json
def list_journals(settings: Settings) -> None:
    """List the journals that hold copies, and the source journal."""
    with settings.connect() as manager:
        source = manager.queue(SYSTEM_JOURNAL).info()
        # The source journal has no quota of its own: it is in the one of all kept copies.
        source_quota = manager.info().journal_quota
        queues = [each for each in manager.queues() if each.journal_count]
    found = [
        (f"{each.name};journal", each.journal_count, each.journal_bytes, each.journal_quota)
        for each in queues
    ]
    found.append((SYSTEM_JOURNAL, source.message_count, source.byte_count, source_quota))
    told = ("name", "message_count", "byte_count", "quota")
    journals = [dict(zip(told, each, strict=True)) for each in found]
    settings.tell_all(journals, ["journal", "messages ", "size ", "quota "], _row)


@command.command()
@click.argument("queue", required=False)
@takes_most("messages to list", 20)
@takes_url_and_json
def show(settings: Settings, queue: str | None, most: int) -> None:
    """List the first messages of QUEUE's journal, or of the source journal without QUEUE."""
    name = SYSTEM_JOURNAL if queue is None else f"{queue.removesuffix(';journal')};journal"
    with settings.connect() as manager:
        lines = look_at(manager, [name], most)
    print_messages(lines, as_json=settings.as_json)


def _row(journal: dict[str, Any]) -> list[str]:
    size, quota = size_text(journal["byte_count"]), size_text(journal["quota"])
    return [journal["name"], str(journal["message_count"]), size, quota]
