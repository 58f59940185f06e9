"""The options of the commands that send folders, and the line that they print for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from dray.cli.arrivals import Wait, arrivals_at
from dray.cli.doubt import on_interrupt
from dray.cli.output import print_json, printable_path
from dray.cli.settings import Settings
from dray.model.words import counted, human_size

if TYPE_CHECKING:
    from dray.errors import DrayError
    from dray.folders import FileSent, FoundFile, LeftOut

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_NAMES = (
    "include", "exclude", "hidden", "follow_links", "changed", "after", "batch", "in_doubt",
    "one_transaction", "state", "dry_run", "manifest",
)  # fmt: skip
_OF_LARGE_MESSAGES = ("fragment_size", "digest", "compression")
_OF_ONE_MESSAGE = (
    "label", "correlation_id", "app_specific", "priority", "dead_letter", "resume",
)  # fmt: skip


def folder_options(
    *, one_transaction: bool
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Give the options for which files of a folder are sent, and how."""
    options = [
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Send only files that match (rclone's patterns: '*.jpg', '/raw/**').",
        ),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches."),
        click.option("--hidden", is_flag=True, help="Send names that begin with a dot, too."),
        click.option(
            "--follow-links",
            is_flag=True,
            help="Follow symbolic links that stay within the directory.",
        ),
        click.option(
            "--changed",
            type=click.Choice(["send", "skip"]),
            default="send",
            show_default=True,
            help="Send a file that has changed since it was sent, or skip it.",
        ),
        click.option(
            "--after",
            default="keep",
            show_default=True,
            metavar="keep|delete|move:DIR",
            help="Keep, delete or move a file once its commit is certain.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Files in one transaction.",
        ),
        click.option(
            "--in-doubt",
            type=click.Choice(["sent", "send"]),
            help=(
                "Count files as sent, or send them again, if the queue manager no longer knows"
                " whether their transaction committed."
            ),
        ),
    ]
    if one_transaction:
        options += _options_of_one_run()

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _options_of_one_run() -> list[Callable[[Callable[_Arguments, _Result]], Any]]:
    """Give the options that a watch, which does not end, cannot have."""
    return [
        click.option("--one-transaction", is_flag=True, help="Send all files in one transaction."),
        click.option(
            "--state",
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory of the ledger; the same command sends only what is new or changed.",
        ),
        click.option(
            "--manifest",
            is_flag=True,
            help="Send a list of the files, sizes and digests last; `dray verify` checks it.",
        ),
        click.option("--dry-run", is_flag=True, help="Say which files would be sent."),
    ]


def refuse_folder_options(context: click.Context) -> None:
    """Raise a usage error if an option for folders was given without a folder."""
    _refuse(context, _NAMES, "a directory")


def _refuse(context: click.Context, names: Iterable[str], meant: str) -> None:
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for {meant}.")


class Shown:
    """Prints a line for each file that was sent or left out."""

    def __init__(self, *, as_json: bool) -> None:
        """Print JSON, one object in each line, or text."""
        self._as_json = as_json
        self.count = 0
        """Files that were sent."""
        self.error: DrayError | None = None
        """The error of the last file that should have been sent or removed, and was not."""

    def __call__(self, told: FileSent | LeftOut) -> None:
        """Print one file."""
        from dray.folders import LeftOut

        if isinstance(told, LeftOut):
            self.left_out(told)
        else:
            self.count += 1
            self.sent(told.file, told.id)

    def sent(self, file: FoundFile, id: str | None) -> None:
        """Print a file that was sent; `id` is None if it only would be."""
        path = printable_path(file.path)
        if self._as_json:
            print_json({"path": path, "size": file.size, "id": id})
        else:
            done = "sent" if id else "would send"
            click.echo(f"{done} {path} ({human_size(file.size)})")

    def left_out(self, told: LeftOut) -> None:
        """Print a name that was not sent, and why."""
        path = printable_path(told.path)
        self.error = told.error or self.error
        if self._as_json:
            print_json({"path": path, "left_out": told.reason})
        else:
            click.echo(f"dray: {path} is left out: {told.reason}", err=True)


def send_folder(
    settings: Settings,
    queue: str,
    directory: str,
    options: Mapping[str, Any],
    *,
    wait: Wait | None,
) -> None:
    """Send the files below a directory, or with `dry_run` say which.

    Raises the error of the last file that should have been sent and was not, once the others are,
    and a usage error if an option of single messages was given.
    """
    import dray.folders

    context = click.get_current_context()
    _refuse(context, _OF_ONE_MESSAGE, "files, not for a directory")
    large = {name: each for name in _OF_LARGE_MESSAGES if (each := context.params[name])}
    rest = dict(options)
    dry_run, one_transaction = rest.pop("dry_run"), rest.pop("one_transaction")
    batch = None if one_transaction else rest.pop("batch")
    rest.pop("batch", None)
    shown = Shown(as_json=settings.as_json)
    if dry_run:
        with ExitStack() as stack:
            if rest["state"] is not None:
                # The ledger knows the files that were sent.
                rest["queue"] = stack.enter_context(settings.connect()).queue(queue)
            _say_which(directory, rest, shown)
        return

    def note() -> str:
        rest_goes = "sends the rest" if rest["state"] else "sends all files again"
        known = counted(shown.count, "file")
        return f"{known} known to be sent to {queue}; the same command {rest_goes}"

    with (
        settings.connect() as manager,
        arrivals_at(manager, wait) as arrivals,
        on_interrupt(note),
    ):
        asked = {} if arrivals is None else arrivals.properties
        timeout = None if wait is None else wait.seconds
        sent = dray.folders.send(
            directory,
            dray.LargeMessageQueue(manager.queue(queue), **large),
            batch=batch,
            timeout=timeout,
            tell=shown,
            **asked,
            **rest,
        )
    if not settings.as_json:
        noun = "file" if sent.files == 1 else "files"
        arrived = "" if wait is None else f", and {wait.until}"
        click.echo(f"sent {sent.files} {noun}, {human_size(sent.bytes)}, to {queue}{arrived}")
    if shown.error is not None:
        raise shown.error


def _say_which(directory: str, options: Mapping[str, Any], shown: Shown) -> None:
    """Print the files that would be sent."""
    import dray.folders

    names = {"include", "exclude", "hidden", "follow_links", "state", "changed", "queue"}
    asked = {name: value for name, value in options.items() if name in names}
    for found in dray.folders.files_of(directory, **asked):
        if isinstance(found, dray.folders.LeftOut):
            shown.left_out(found)
        else:
            shown.sent(found, None)
    if shown.error is not None:
        raise shown.error
