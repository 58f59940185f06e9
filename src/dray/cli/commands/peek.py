"""`dray peek`: what is in a queue, message by message, nothing taken."""

from __future__ import annotations

import click

from dray.cli.messages import look_at, print_messages
from dray.cli.settings import Settings, takes_most, takes_url_and_json


@click.command()
@click.argument("queue")
@takes_most("messages to list", 20)
@takes_url_and_json
@click.pass_obj
def command(settings: Settings, queue: str, *, most: int) -> None:
    """List the first messages of QUEUE; a large message shows as its parts."""
    with settings.connect() as manager:
        lines = look_at(manager, [queue], most)
    print_messages(lines, as_json=settings.as_json)
