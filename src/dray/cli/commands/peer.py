"""`dray peer`: which queue manager is known at each address, and another one in its place."""

from __future__ import annotations

import click

from dray.cli.groups import CommandGroup
from dray.cli.output import print_json, print_table, time_text
from dray.cli.settings import Settings, takes_url_and_json


@click.group(cls=CommandGroup)
def command() -> None:
    """Show the queue managers that this one delivers to or that call it; accept or forget one."""


@command.command("list")
@takes_url_and_json
@click.pass_obj
def list_peers(settings: Settings) -> None:
    """List the queue manager that is known at each address, and the caller of each that calls."""
    with settings.connect() as manager:
        peers = manager.peers()
    if settings.as_json:
        print_json(peers)
        return
    rows = (
        [
            "calls this one" if each.address == each.manager_id else each.address,
            each.manager_id,
            each.caller,
            time_text(each.since),
            each.state,
            " ".join(filter(None, (each.found, each.found_caller))),
        ]
        for each in peers
    )
    print_table(["address", "manager", "caller", "since", "state", "found instead"], rows)


@command.command()
@click.argument("address")
@click.argument("manager_id", required=False)
@takes_url_and_json
@click.pass_obj
def accept(settings: Settings, address: str, manager_id: str | None) -> None:
    """Deliver to another queue manager at ADDRESS: the one that answered there, or MANAGER_ID.

    With the id of a queue manager that calls this one in the place of ADDRESS: take messages from
    it by the caller that showed its key last.
    """
    with settings.connect() as manager:
        manager.accept_peer(address, manager_id)
    if settings.as_json:
        print_json({"accepted": address})
    else:
        click.echo(f"accepted the queue manager at {address}")


@command.command()
@click.argument("address")
@takes_url_and_json
@click.pass_obj
def forget(settings: Settings, address: str) -> None:
    """Deliver to whichever queue manager answers at ADDRESS next.

    With the id of a queue manager that calls this one: take messages from it by whichever caller
    shows its key next.
    """
    with settings.connect() as manager:
        manager.forget_peer(address)
    if settings.as_json:
        print_json({"forgotten": address})
    else:
        click.echo(f"forgot the queue manager at {address}")
