"""`dray upload`: unfinished uploads of `dray send --resume`.

The queue manager reserves room for each until it is resumed, dropped, or a week old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import dray
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.model.words import size_text, time_text

if TYPE_CHECKING:
    from dray.client.files.upload_state import UnfinishedUpload


@click.group(cls=CommandGroup)
def command() -> None:
    """List and drop unfinished uploads of `dray send --resume`."""


@command.command("list")
@click.argument("queue")
@takes_url_and_json
def list_uploads(settings: Settings, queue: str) -> None:
    """List the unfinished uploads to QUEUE, the oldest first."""
    with settings.connect() as manager:
        found = dray.LargeMessageQueue(manager.queue(queue)).unfinished()
    settings.tell_all(found, ["id", "done ", "size ", "begun", "used", "path"], _row)


@command.command()
@click.argument("queue")
@click.argument("sequence_id", metavar="ID")
@takes_url_and_json
def drop(settings: Settings, queue: str, sequence_id: str) -> None:
    """Drop the upload ID to QUEUE and free the room reserved for it.

    The `dray send --resume` that began it starts over with the same STATE.
    """
    with settings.connect() as manager:
        large = dray.LargeMessageQueue(manager.queue(queue))
        large.drop_unfinished(sequence_id)
    settings.tell({"dropped": sequence_id}, f"dropped {sequence_id}")


def _row(upload: UnfinishedUpload) -> list[str]:
    return [
        upload.sequence_id,
        size_text(upload.bytes_done),
        "" if upload.bytes_total is None else size_text(upload.bytes_total),
        time_text(upload.begun_time),
        time_text(upload.used_time),
        upload.path,
    ]
