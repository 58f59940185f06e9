"""`dray inspect`: look into the data directory of a stopped queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dray.cli.output import printable
from dray.cli.settings import CommandGroup, Settings, takes_json, takes_most
from dray.model.words import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dray.offline.inspecting import RecordSeen

_MICROSECONDS = 1e6
_COLUMNS = ["position ", "message", "queue", "part", "file", "byte ", "length ", "arrived", ""]


@click.group(cls=CommandGroup)
def command() -> None:
    """Look into the log, heap files and queues of a stopped queue manager.

    It changes nothing.
    """


def _data(function: Callable[..., None]) -> Callable[..., None]:
    return click.option("--data", required=True, metavar="DIR", help="The data directory.")(
        function
    )


@command.command()
@_data
@takes_most("groups to show", 50)
@takes_json
def log(settings: Settings, data: str, most: int) -> None:
    """Show the last groups of QMLog: the facts that each sync made durable."""
    from dray.offline.inspecting import look_at_log

    groups = look_at_log(data, most)
    lines = []
    for group in groups:
        mark = f", {group.mark}" if group.mark else ""
        lines.append(f"group at {group.lsn}, epoch {group.epoch}{mark}")
        for number, fact in enumerate(group.facts, group.first_fact):
            lines.append(f"  {number}  {printable(fact)}")
    settings.tell(groups, *lines)


@command.command()
@click.argument("file")
@_data
@takes_json
def heap(settings: Settings, file: str, data: str) -> None:
    """Show the live records of the heap FILE, such as p0000001.mq, in file order."""
    from dray.offline.inspecting import look_at_heap

    settings.tell_all(look_at_heap(data, file), _COLUMNS, _row)


@command.command()
@click.argument("name")
@_data
@takes_most("messages to show", 50)
@takes_json
def queue(settings: Settings, name: str, data: str, most: int) -> None:
    """Show the first messages of the queue NAME and where their bytes lie."""
    from dray.offline.inspecting import look_at_queue

    settings.tell_all(look_at_queue(data, name, most), _COLUMNS, _row)


@command.command()
@click.argument("message_id", metavar="ID")
@_data
@takes_json
def story(settings: Settings, message_id: str, data: str) -> None:
    """Show the history of the message ID, as far back as the log reaches."""
    from dray.offline.story import tell_story

    told = tell_story(data, message_id)
    lines = []
    for each in told.happened:
        when = time_text(each.when_us / _MICROSECONDS) if each.when_us else "-"
        lines.append(f"fact {each.fact}  {when}  {printable(each.what)}")
    for seen in told.now:
        fits = "its CRC32C fits" if seen.intact else "its CRC32C does NOT fit"
        lines.append(
            f"now in {seen.queue!r} at position {seen.lookup_id}: {seen.file}, byte {seen.offset},"
            f" {seen.length} bytes, {fits}"
        )
    if not told.now:
        lines.append("now in no queue" if told.happened else "the log knows nothing of it")
    settings.tell(told, *lines)


def _row(seen: RecordSeen) -> list[str]:
    return [
        str(seen.lookup_id),
        seen.message_id,
        seen.queue,
        seen.part,
        seen.file,
        str(seen.offset),
        str(seen.length),
        time_text(seen.arrived_us / _MICROSECONDS),
        "" if seen.intact else "DAMAGED",
    ]
