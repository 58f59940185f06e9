"""Options that commands share: the queue manager to connect to, JSON output, `--yes`; groups.

The first two may stand before or after the command's name: `dray --json queue list` and `dray queue
list --json` are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

import click

import dray
from dray.cli.output import print_json, print_record, print_table
from dray.net.doors import default_url

MOST = 1_000_000_000
"""The largest number of things to list."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Seen = TypeVar("Seen")
asks = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")
"""The option of a command that destroys something."""
_CHARACTERS_MAX = 1000
"""Characters of the help sentence that are shown: all of them."""


@dataclass
class Settings:
    """The global options."""

    url: str = field(default_factory=default_url)
    as_json: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    log_level: str | None = None
    token_file: str | None = None

    def connect(self) -> dray.Manager:
        """Connect to the queue manager; raises `ConnectionLost` if nobody listens there."""
        return dray.connect(
            self.url, ca=self.ca, cert=self.cert, key=self.key, token_file=self.token_file
        )

    def tell(self, value: object, *lines: str) -> None:
        """Print what was done or found: a value for programs, or lines for people."""
        if self.as_json:
            print_json(value)
        else:
            for line in lines:
                click.echo(line)

    def tell_record(self, value: object, pairs: Mapping[str, str]) -> None:
        """Print all that is known of one thing: the value for programs, or names and values."""
        if self.as_json:
            print_json(value)
        else:
            print_record(pairs)

    def tell_all(
        self, found: Sequence[Seen], columns: Sequence[str], row: Callable[[Seen], Sequence[str]]
    ) -> None:
        """Print what was found: the values for programs, or a table with a row of each."""
        if self.as_json:
            print_json(found)
        else:
            print_table(columns, map(row, found))


Handler = Callable[Concatenate[Settings, Arguments], Result]
"""A command that takes the settings first."""


def takes_url_and_json(function: Handler[Arguments, Result]) -> Callable[Arguments, Result]:
    """Give both options to a command that connects to a queue manager, and the settings."""
    return _takes_both(function, url_is_shown=True)


def takes_json(function: Handler[Arguments, Result]) -> Callable[Arguments, Result]:
    """Give `--json` and the settings to a command that connects to no queue manager, or to its own.

    It accepts `--url` and ignores it: the option is global, and programs pass it with every
    command.
    """
    return _takes_both(function, url_is_shown=False)


def takes_most(
    what: str, default: int
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Give `--max` to a command that lists so much of something and no more."""
    return click.option(
        "--max",
        "most",
        type=click.IntRange(1, MOST),
        default=default,
        help=f"Most {what}  [default: {default}].",
    )


def _takes_both(
    function: Handler[Arguments, Result], *, url_is_shown: bool
) -> Callable[Arguments, Result]:
    with_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_note_json,
        help="Print JSON instead of tables.",
    )(click.pass_obj(function))
    return click.option(
        "--url",
        expose_value=False,
        callback=_note_url,
        metavar="URL",
        hidden=not url_is_shown,
        help="Queue manager to connect to.",
    )(with_json)


def _note_json(context: click.Context, parameter: click.Parameter, value: object) -> None:
    del parameter
    if value:
        context.ensure_object(Settings).as_json = True


def _note_url(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    del parameter
    if value:
        context.ensure_object(Settings).url = value


def make_sure(what: str, *, yes: bool) -> None:
    """Return if the user wants it; raises `Abort` or a usage error if not."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"This would {what}. Give --yes if you want that.")
    click.confirm(f"This will {what}. Do it?", abort=True, err=True)


class CommandGroup(click.Group):
    """A group that lists each command with the first sentence of its help.

    Click's own groups cut the sentence where the line ends.
    """

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in the order of their names."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_CHARACTERS_MAX))
                    for name, command in commands
                    if command is not None
                ]
            )
