"""`dray move`: messages from one queue to another, by the queue manager, at once."""

from __future__ import annotations

import click

import dray
from dray.cli.doubt import Ids, moved
from dray.cli.option_types import MessageIdText
from dray.cli.settings import Settings, takes_url_and_json
from dray.model.names import parse_queue_address
from dray.model.words import counted


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.argument("ids", metavar="[ID]...", nargs=-1, type=MessageIdText())
@takes_url_and_json
def command(settings: Settings, source: str, target: str, ids: tuple[str, ...]) -> None:
    """Move the messages with these IDs, or all messages, from one queue to another.

    FROM may be a queue, a sub-queue such as orders;poison, a journal such as orders;journal or a
    dead-letter queue. TO may also be a queue of another queue manager. A message keeps its id; a
    large message moves whole. Each 1,000 messages move in one transaction, and their bytes stay
    where they are.
    """
    if parse_queue_address(source) == parse_queue_address(target):
        raise click.UsageError(f"FROM and TO are both {source}: name another queue as TO.")

    def move(manager: dray.Manager, ids: Ids) -> int:
        return manager.move(source, target, ids)

    def still_there(manager: dray.Manager) -> list[str]:
        return [str(each.id) for each in manager.queue(source).contents()]

    note = f"each message is in {source} or in {target}, none in both"
    count = moved(settings, list(ids) or None, move, still_there, note=note)
    settings.tell(
        {"from": source, "to": target, "moved": count},
        f"moved {counted(count)} from {source} to {target}",
    )
