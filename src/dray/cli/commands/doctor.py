"""`dray doctor`: why messages do not move, and what to do."""

from __future__ import annotations

import click

from dray.cli.option_types import Seconds
from dray.cli.output import printable
from dray.cli.settings import Settings, takes_url_and_json

EXIT_FINDINGS = 1


@click.command()
@click.argument("queue", required=False)
@click.option(
    "--idle",
    type=Seconds(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A transaction is idle when nothing has happened in it for so long.",
)
@takes_url_and_json
def command(settings: Settings, queue: str | None, *, idle: float) -> int:
    """Say why messages do not move, at QUEUE or at all, and what to do; change nothing.

    Exit status 1 means that something was found.
    """
    with settings.connect() as manager:
        findings = manager.doctor(queue, idle=idle)
    lines = [f"{each.code}: {printable(each.sentence)}" for each in findings]
    settings.tell(findings, *(lines or ["nothing keeps messages from moving"]))
    return EXIT_FINDINGS if findings else 0
