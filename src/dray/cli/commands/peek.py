"""`dray peek`: the messages of a queue, one by one, nothing taken."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice

import click

from dray.cli.messages import file_of, look_at, print_messages, values_of
from dray.cli.output import print_json, print_table
from dray.cli.settings import Settings, takes_most, takes_url_and_json
from dray.model.queued import QueuedMessage
from dray.model.words import size_text, time_text


@click.command()
@click.argument("queue")
@takes_most("messages to list", 20)
@click.option("--large", is_flag=True, help="One line for each large message, not for each part.")
@click.option("--after", type=int, default=0, metavar="POSITION", help="Begin behind a position.")
@click.option("--match", metavar="GLOB", help="Only messages whose label matches, such as '*.csv'.")
@takes_url_and_json
def command(
    settings: Settings, queue: str, *, most: int, large: bool, after: int, match: str | None
) -> None:
    """List the first messages of QUEUE; a large message shows as its parts, or with --large as one.

    With --json each line is an object with all properties of a message but its body.
    """

    def is_wanted(label: str) -> bool:
        return match is None or fnmatchcase(label, match)

    with settings.connect() as manager:
        if not large:
            lines = look_at(manager, [queue], most, after=after, is_wanted=is_wanted)
            print_messages(lines, as_json=settings.as_json)
            return
        contents = manager.queue(queue).contents(after)
        found = list(islice((each for each in contents if is_wanted(each.label)), most))
        if settings.as_json:
            for each in found:
                print_json(values_of(each) | {"file": file_of(manager, each)})
            return
    columns = ["position ", "label", "size ", "parts ", "state", "sent", "id"]
    print_table(columns, map(_row, found))


def _row(message: QueuedMessage) -> list[str]:
    return [
        str(message.lookup_id),
        message.label,
        size_text(message.size),
        str(message.parts or ""),
        message.wholeness,
        time_text(message.sent_time),
        message.id,
    ]
