"""`dray outgoing`: the queues that deliver to other queue managers."""

from __future__ import annotations

import click

from dray.cli.groups import CommandGroup
from dray.cli.output import print_json, print_table, size_text
from dray.cli.settings import Settings, takes_url_and_json
from dray.model.classes import QueueKind


@click.group(cls=CommandGroup)
def command() -> None:
    """List outgoing queues; resolve a queue whose delivery has diverged."""


@command.command("list")
@takes_url_and_json
@click.pass_obj
def list_outgoing(settings: Settings) -> None:
    """List the outgoing queues and the state of their delivery."""
    with settings.connect() as manager:
        queues = [each for each in manager.queues() if each.kind is QueueKind.OUTGOING]
    if settings.as_json:
        print_json(queues)
        return
    rows = (
        [each.name, str(each.message_count), size_text(each.byte_count), each.state]
        for each in queues
    )
    print_table(["queue", "messages ", "size ", "state"], rows)


@command.command()
@click.argument("name")
@takes_url_and_json
@click.pass_obj
def accept(settings: Settings, name: str) -> None:
    """Deliver all messages of the diverged outgoing queue NAME; some may arrive twice.

    The destination accepted messages of this queue from another copy of this queue manager's data
    directory, so nobody can know which messages it has. Stop the other copy first.
    """
    with settings.connect() as manager:
        count = manager.accept_outgoing(name)
    if settings.as_json:
        print_json({"accepted": name, "messages": count})
    else:
        click.echo(f"delivers the {count} messages of {name} in a new sequence")


@command.command()
@click.argument("name")
@takes_url_and_json
@click.pass_obj
def discard(settings: Settings, name: str) -> None:
    """Turn all messages of the diverged outgoing queue NAME into dead letters.

    Later messages are delivered. The dead letters go to system$;deadxact. Stop the other copy of
    the data directory first.
    """
    with settings.connect() as manager:
        count = manager.discard_outgoing(name)
    if settings.as_json:
        print_json({"discarded": name, "messages": count})
    else:
        click.echo(f"moved the {count} messages of {name} to system$;deadxact")
