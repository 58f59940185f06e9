"""`dray backup`: write everything a queue manager holds to one file or stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray import __version__
from dray.cli.output import print_json
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_url_and_json
from dray.model.words import counted, human_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from dray.model.backup import BackupReport


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--data", metavar="DIR", help="Back up this data directory; its queue manager must be stopped."
)
@takes_url_and_json
def command(settings: Settings, file: str, data: str | None) -> None:
    """Write a backup of the queue manager to FILE, or to standard output if FILE is -.

    The queue manager keeps working: the backup shows one moment. FILE appears when the backup is
    complete, and replaces an older FILE.
    """
    with progress("backing up", None) as shown:
        if data is not None:
            report = _stopped(data, file, shown.update)
        else:
            with settings.connect() as manager:
                target = sys.stdout.buffer if file == "-" else file
                report = manager.backup(target, progress=shown.update)
    tell(settings, report, f"backed up to {file}", to_error=file == "-")


def tell(settings: Settings, report: BackupReport, done: str, *, to_error: bool = False) -> None:
    """Print what an archive contains."""
    if settings.as_json and not to_error:
        print_json(report)
        return
    click.echo(
        f"{done}: {counted(report.messages)}, {human_size(report.record_bytes)}, packed to"
        f" {human_size(report.archive_bytes)}; SHA-256 {report.sha256}",
        err=to_error,
    )


def _stopped(data: str, file: str, told: Callable[[int, int], object]) -> BackupReport:
    from dray.client.awaited.backup import whole_or_absent
    from dray.daemon.timekeeper import Timekeeper
    from dray.offline.backup import back_up_stopped

    now = Timekeeper().now()
    if file == "-":
        write = sys.stdout.buffer.write
        return back_up_stopped(data, write, told, now=now, version=__version__)
    with whole_or_absent(Path(file)) as target:
        return back_up_stopped(data, target.write, told, now=now, version=__version__)
