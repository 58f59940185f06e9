"""`dray deadletter`: messages that were not delivered or received, why, and what to do then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import click

import dray
from dray.cli.doubt import Ids, moved
from dray.cli.messages import row_of, values_of
from dray.cli.option_types import MessageIdText
from dray.cli.output import print_json, print_table
from dray.cli.progress import progress
from dray.cli.settings import (
    CommandGroup,
    Settings,
    asks,
    make_sure,
    takes_most,
    takes_url_and_json,
)
from dray.client.connections.threads import run
from dray.errors import DrayError, MessageNotFound
from dray.folders.labels import file_name, otherwise_named
from dray.model.queued import QueuedMessage, by_destination
from dray.model.words import counted, human_size, size_text, time_text

_SENT_OR_THERE = "each message is sent or still a dead letter, none is both"
_DROPPED_OR_THERE = "each message is dropped or still a dead letter"
_ids = click.argument("ids", metavar="[ID]...", nargs=-1, type=MessageIdText())
_all = click.option("--all", "every", is_flag=True, help="All dead letters.")


@click.group(cls=CommandGroup)
def command() -> None:
    """Look at dead letters, send them again, save or drop them.

    A dead letter is a message that was not delivered or received in time, or was refused. A large
    message is one dead letter.
    """


@command.command(name="list")
@takes_most("dead letters to list", 20)
@takes_url_and_json
def list_letters(settings: Settings, most: int) -> None:
    """List the first dead letters, where each was sent and why it is one."""
    with settings.connect() as manager:
        letters = manager.dead_letters()
    if settings.as_json:
        print_json([values_of(each) for each in islice(letters, most)])
        return
    columns = ["id", "label", "size ", "sent", "to", "reason"]
    print_table(columns, (_row(each) for each in islice(letters, most)))
    if len(letters) > most:
        click.echo(f"{counted(len(letters) - most)} more; --max lists them")


@command.command()
@click.argument("message_id", metavar="ID", type=MessageIdText())
@takes_url_and_json
def show(settings: Settings, message_id: str) -> None:
    """Show all properties of the dead letter ID."""
    with settings.connect() as manager:
        letter = _find(manager, message_id)
    settings.tell_record(values_of(letter), row_of(letter))


@command.command()
@_ids
@_all
@click.option("--to", metavar="QUEUE", help="Send them there  [default: where each was sent].")
@takes_url_and_json
def retry(settings: Settings, ids: tuple[str, ...], *, every: bool, to: str | None) -> int:
    """Send dead letters again: those with these IDs, or all.

    Each leaves the dead letters in the same transaction in which it joins the other queue, so it is
    never lost and never there twice. It keeps its id, and its times to live begin anew. One that
    cannot be sent stays, with an error; the others are sent.
    """
    _check_chosen(ids, every=every)
    with settings.connect() as manager:
        letters = _chosen(manager, ids, every=every)

    sent, status = 0, 0
    for destination, group in by_destination(letters, to).items():
        try:
            group_ids = [each.id for each in group]
            act = partial(_send_again, group, to)
            sent += moved(settings, group_ids, act, _letter_ids, note=_SENT_OR_THERE)
        except DrayError as error:
            status = status or error.exit_status
            where = destination or "no queue that is known"
            click.echo(f"dray: {error.code}: {counted(len(group))} for {where}: {error}", err=True)
    settings.tell({"retried": sent, "chosen": len(letters)}, f"sent {counted(sent)} again")
    return status


@command.command()
@_ids
@_all
@asks
@takes_url_and_json
def drop(settings: Settings, ids: tuple[str, ...], *, every: bool, yes: bool) -> None:
    """Drop dead letters for good: those with these IDs, or all."""
    _check_chosen(ids, every=every)
    with settings.connect() as manager:
        letters = _chosen(manager, ids, every=every)
    size = sum(each.size for each in letters)
    if letters:
        make_sure(f"drop {counted(len(letters))} with {human_size(size)} for good", yes=yes)

    def act(manager: dray.Manager, ids: Ids) -> int:
        return manager.drop_dead_letters(ids or ())

    chosen_ids = [each.id for each in letters]
    count = moved(settings, chosen_ids, act, _letter_ids, note=_DROPPED_OR_THERE)
    settings.tell(
        {"dropped": count, "bytes": size}, f"dropped {counted(count)}, {human_size(size)}"
    )


@command.command()
@click.argument("message_id", metavar="ID", type=MessageIdText())
@click.option(
    "--to", "folder", metavar="DIR", required=True, type=Path, help="Directory of the new file."
)
@takes_url_and_json
def save(settings: Settings, message_id: str, *, folder: Path) -> None:
    """Write the body of the dead letter ID to a new file in DIR; the dead letter stays.

    The file is named after the label, made safe. It never replaces another file.
    """
    with settings.connect() as manager:
        letter = _find(manager, message_id)
        path = _save(manager, letter, folder)
    settings.tell(
        {"id": letter.id, "path": str(path), "size": letter.size},
        f"saved {path} ({human_size(letter.size)})",
    )


def _save(manager: dray.Manager, letter: QueuedMessage, folder: Path) -> Path:
    from dray.folders.placing import Item, TargetFolder, write_new

    queue, otherwise = manager.queue(letter.queue, raw=True), otherwise_named(letter.id)

    def write(body: Path) -> None:
        if not letter.parts:
            write_new(body, queue.peek_by_lookup_id(letter.lookup_id).body, sync=True)
            return
        with (
            dray.LargeMessageQueue(queue).peek_by_id(letter.id) as message,
            progress(f"saving {file_name(letter.label, otherwise)}", message.size) as shown,
        ):
            message.save_to(body, shown.update)

    with TargetFolder(str(folder)) as target:
        target.clear(manager.outcome)
        placed = target.place(
            Item(letter.id, letter.label, otherwise, "", write, is_body=lambda _: False)
        )
        placed.close(committed=True)
    return placed.path


def _check_chosen(ids: Sequence[str], *, every: bool) -> None:
    if bool(ids) == every:
        raise click.UsageError("Give the ids of dead letters, or --all.")


def _chosen(manager: dray.Manager, ids: Sequence[str], *, every: bool) -> list[QueuedMessage]:
    letters = manager.dead_letters()
    if every:
        return letters
    found = {each.id: each for each in letters}
    for id in ids:
        if id not in found:
            raise _not_there(id)
    return [found[id] for id in dict.fromkeys(ids)]  # type: ignore[index]


def _find(manager: dray.Manager, id: str) -> QueuedMessage:
    for letter in manager.dead_letters():
        if letter.id == id:
            return letter
    raise _not_there(id)


def _send_again(
    listed: list[QueuedMessage], to: str | None, manager: dray.Manager, ids: Ids
) -> int:
    """Send those of the listed dead letters that are left."""
    from dray.client.awaited.moving import retry_listed

    left = set(ids or ())
    link = manager.queue(listed[0].queue).awaited.handle.link
    return run(retry_listed(link, [each for each in listed if each.id in left], to))


def _not_there(id: str) -> MessageNotFound:
    return MessageNotFound(f"there is no dead letter {id}; `dray deadletter list` shows them")


def _letter_ids(manager: dray.Manager) -> Iterable[str]:
    return (each.id for each in manager.dead_letters())


def _row(letter: QueuedMessage) -> list[str]:
    return [
        letter.id,
        letter.label,
        size_text(letter.size),
        time_text(letter.sent_time),
        letter.destination or "",
        letter.reason,
    ]
