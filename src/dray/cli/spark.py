"""`dray spark`: what is in queues, landed with Spark as files and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dray.cli.groups import Group
from dray.cli.output import print_json, print_record
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_url_and_json
from dray.cli.sizes import Size
from dray.model.sizes import human_size, size_in_bytes

if TYPE_CHECKING:
    from dray.spark import LandingSummary


@click.group(cls=Group)
def command() -> None:
    """Land what is in queues with Spark."""


@command.command()
@click.argument("queue")
@click.option("--to", "out", required=True, metavar="DIR", help="Payload files and table go here.")
@click.option("--follow", is_flag=True, help="Go on with what comes later, until ^C.")
@click.option(
    "--idle", type=click.FloatRange(0), metavar="S", help="With --follow: end after S idle seconds."
)
@click.option("--batch", type=Size(), help="Payload of one micro-batch  [default: 1GiB].")
@click.option(
    "--accept-new-queue",
    is_flag=True,
    help="Land a queue that was deleted and made again, from its first message.",
)
@takes_url_and_json
@click.pass_obj
def land(
    settings: Settings,
    queue: str,
    *,
    out: str,
    follow: bool,
    idle: float | None,
    batch: int | None,
    accept_new_queue: bool,
) -> None:
    """Land the large messages of QUEUE as payload files and a Parquet table below DIR.

    Started again after a crash it goes on where it was: nothing is lost, nothing lands twice.
    """
    from dray.spark import BYTES_PER_BATCH, Until, find_java
    from dray.spark import land as land_with_spark

    bytes_per_batch = size_in_bytes(BYTES_PER_BATCH if batch is None else batch)
    click.echo(f"Spark runs on {find_java()}", err=True)
    with progress(f"landing {queue}", None) as shown:
        summary = land_with_spark(
            settings.url,
            queue,
            out,
            until=Until(follow=follow, idle_s=idle),
            bytes_per_batch=bytes_per_batch,
            accept_new_queue=accept_new_queue,
            report=lambda so_far: shown.update(so_far.bytes),
        )
    if settings.as_json:
        print_json(summary)
    else:
        _print(summary)


def _print(summary: LandingSummary) -> None:
    print_record(
        {
            "files": str(summary.files),
            "bytes": human_size(summary.bytes),
            "rate": f"{human_size(summary.rate_bytes_s)}/s",
            "duplicates": str(summary.duplicates),
            "out of order": str(summary.out_of_order),
            "holes": str(len(summary.holes)),
            "payload files": str(summary.payload_directory),
            "table": str(summary.table_directory),
        }
    )
    for hole in summary.holes:
        missing = ", ".join(hole.missing)
        click.echo(f"hole  {hole.label or 'no label'}: {missing} missing  {hole.sequence_id}")
    for sentence in summary.unreadable:
        click.echo(f"unreadable  {sentence}")
