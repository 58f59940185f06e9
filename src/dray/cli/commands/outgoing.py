"""`dray outgoing`: the queues that deliver to other queue managers."""

from __future__ import annotations

import click

import dray
from dray.cli.queue_text import record_of
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.errors import Misuse
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.words import counted, size_text


@click.group(cls=CommandGroup)
def command() -> None:
    """List, pause and resume outgoing queues; resolve one whose delivery has diverged."""


@command.command("list")
@takes_url_and_json
def list_outgoing(settings: Settings) -> None:
    """List the outgoing queues and the state of their delivery."""
    with settings.connect() as manager:
        queues = [each for each in manager.queues() if each.kind is QueueKind.OUTGOING]
    settings.tell_all(queues, ["queue", "messages ", "size ", "state"], _row)


@command.command()
@click.argument("name")
@takes_url_and_json
def show(settings: Settings, name: str) -> None:
    """Show the state of the outgoing queue NAME and the history of its connection."""
    with settings.connect() as manager:
        info = _outgoing(manager, name)
    settings.tell_record(info, record_of(info))


@command.command()
@click.argument("name")
@takes_url_and_json
def pause(settings: Settings, name: str) -> None:
    """Pause the delivery of the outgoing queue NAME; messages wait in it."""
    with settings.connect() as manager:
        manager.pause(name)
    settings.tell({"paused": name}, f"paused {name}")


@command.command()
@click.argument("name")
@takes_url_and_json
def resume(settings: Settings, name: str) -> None:
    """Resume the delivery of the outgoing queue NAME."""
    with settings.connect() as manager:
        manager.resume(name)
    settings.tell({"resumed": name}, f"resumed {name}")


@command.command()
@click.argument("name")
@takes_url_and_json
def retry(settings: Settings, name: str) -> None:
    """Try the connection of the outgoing queue NAME now, instead of at the next attempt."""
    with settings.connect() as manager:
        if _outgoing(manager, name).state == "on hold":
            raise Misuse(f"{name} is paused; `dray outgoing resume` delivers it again")
        manager.resume(name)
    settings.tell({"retried": name}, f"retried {name}")


def _row(info: QueueInfo) -> list[str]:
    return [info.name, str(info.message_count), size_text(info.byte_count), info.state]


def _outgoing(manager: dray.Manager, name: str) -> QueueInfo:
    info = manager.queue(name).info()
    if info.kind is not QueueKind.OUTGOING:
        raise Misuse(f"{name!r} is not an outgoing queue; `dray outgoing list` shows those")
    return info


@command.command()
@click.argument("name")
@takes_url_and_json
def accept(settings: Settings, name: str) -> None:
    """Deliver all messages of the diverged outgoing queue NAME; some may arrive twice.

    The destination accepted messages of this queue from another copy of this queue manager's data
    directory, so nobody can know which messages it has. Stop the other copy first.
    """
    with settings.connect() as manager:
        count = manager.accept_outgoing(name)
    settings.tell(
        {"accepted": name, "messages": count},
        f"delivers {counted(count)} of {name} in a new sequence",
    )


@command.command()
@click.argument("name")
@takes_url_and_json
def discard(settings: Settings, name: str) -> None:
    """Turn all messages of the diverged outgoing queue NAME into dead letters.

    Later messages are delivered. The dead letters go to system$;deadxact. Stop the other copy of
    the data directory first.
    """
    with settings.connect() as manager:
        count = manager.discard_outgoing(name)
    settings.tell(
        {"discarded": name, "messages": count},
        f"moved {counted(count)} of {name} to system$;deadxact",
    )
