"""`dray restore`: create a data directory from a backup."""

from __future__ import annotations

import sys

import click

import dray
from dray.cli.commands.backup import tell
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_json


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("directory", metavar="DIR")
@takes_json
def command(settings: Settings, file: str, directory: str) -> None:
    """Create the data directory DIR from the backup FILE, or from standard input if FILE is -.

    DIR must be missing or empty. It appears after the command has verified everything in it; then
    start a queue manager on it.
    """
    source = sys.stdin.buffer if file == "-" else file
    with progress("restoring", None) as shown:
        report = dray.restore(source, directory, progress=shown.update)
    tell(settings, report, f"restored to {directory}")
