"""`dray peer`: which queue manager is known at each address, and another one in its place."""

from __future__ import annotations

import click

import dray
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.model.words import time_text


@click.group(cls=CommandGroup)
def command() -> None:
    """Show the queue managers that this one delivers to or that call it; accept or forget one."""


@command.command("list")
@takes_url_and_json
def list_peers(settings: Settings) -> None:
    """List the queue manager that is known at each address, and the caller of each that calls."""
    with settings.connect() as manager:
        peers = manager.peers()
    columns = ["address", "manager", "caller", "since", "state", "found instead"]
    settings.tell_all(peers, columns, _row)


@command.command()
@click.argument("address")
@click.argument("manager_id", required=False)
@takes_url_and_json
def accept(settings: Settings, address: str, manager_id: str | None) -> None:
    """Deliver to another queue manager at ADDRESS: the one that answered there, or MANAGER_ID.

    With the id of a queue manager that calls this one in the place of ADDRESS: take messages from
    it by the caller that showed its key last.
    """
    with settings.connect() as manager:
        manager.accept_peer(address, manager_id)
    settings.tell({"accepted": address}, f"accepted the queue manager at {address}")


@command.command()
@click.argument("address")
@takes_url_and_json
def forget(settings: Settings, address: str) -> None:
    """Deliver to whichever queue manager answers at ADDRESS next.

    With the id of a queue manager that calls this one: take messages from it by whichever caller
    shows its key next.
    """
    with settings.connect() as manager:
        manager.forget_peer(address)
    settings.tell({"forgotten": address}, f"forgot the queue manager at {address}")


def _row(peer: dray.PeerInfo) -> list[str]:
    return [
        "calls this one" if peer.address == peer.manager_id else peer.address,
        peer.manager_id,
        peer.caller,
        time_text(peer.since),
        peer.state,
        " ".join(filter(None, (peer.found, peer.found_caller))),
    ]
