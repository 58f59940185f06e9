"""`dray watch`: send each file that appears in a folder, once, until told to stop."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from dray.cli.arrivals import Wait, WaitingCommand, watch_wait_option
from dray.cli.doubt import on_interrupt
from dray.cli.folders import Shown, folder_options
from dray.cli.option_types import Seconds
from dray.cli.settings import Settings, takes_url_and_json
from dray.cli.until_stopped import connected, stopped_by_sigterm
from dray.model.words import counted


@click.command(cls=WaitingCommand)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("queue")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of the ledger that remembers which files were sent.",
)
@click.option(
    "--settle",
    type=Seconds(0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Send a file that was there before, or with --poll any file, once it has not changed for"
    " this long.",
)
@click.option(
    "--poll",
    type=Seconds(0, min_open=True),
    metavar="SECONDS",
    help="Look at the folder this often, where the kernel does not tell of changes (NFS).",
)
@click.option(
    "--ready-suffix",
    default="",
    metavar="SUFFIX",
    help="Send a file once its name with SUFFIX exists, too; that one is not sent.",
)
@watch_wait_option
@folder_options(one_transaction=False)
@takes_url_and_json
def command(
    settings: Settings,
    /,
    directory: Path,
    queue: str,
    *,
    wait: Wait | None,
    **options: Any,  # noqa: ANN401 - the options of `dray.folders.watch`
) -> None:
    """Send each file below DIRECTORY to QUEUE as a large message, and each that appears there.

    A file is sent when its writer closes it or renames it into place, and again when it changes.
    The same command with the same --state goes on where the last one ended, however that one ended;
    nothing is sent twice. It waits while the queue manager is away or full. SIGTERM ends it.
    """
    import dray.folders

    check_usage(wait, options["after"])
    options["wait"] = None if wait is None else wait.until
    # It watches a new folder twice when its parent is new as well, and warns of that.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
    shown = Shown(as_json=settings.as_json)

    def note() -> str:
        known = counted(shown.count, "file")
        return f"{known} known to be sent to {queue}; the same command sends the rest"

    with on_interrupt(note), stopped_by_sigterm() as stop:
        manager = connected(settings, stop)
        if manager is None:
            return
        with manager:
            dray.folders.watch(directory, manager.queue(queue), stop=stop, tell=shown, **options)


def check_usage(wait: Wait | None, after: str) -> None:
    """Raise a usage error for a `--wait` that a watch cannot have."""
    if wait is not None and wait.seconds is not None:
        raise click.UsageError("A watch has no end: write --wait or --wait=received.")
    if wait is not None and after == "keep":
        raise click.UsageError("--wait is for --after delete or --after move:DIR.")
