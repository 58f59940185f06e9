"""Options that all commands share: the queue manager to connect to, and JSON output.

Both may stand before or after the command's name: `dray --json queue list` and `dray queue list
--json` are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from dray.net.doors import default_url

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager

MOST = 1_000_000_000
"""The largest number of things to list."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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

    def connect(self) -> Manager:
        """Connect to the queue manager; raises `ConnectionLost` if nobody listens there."""
        import dray

        return dray.connect(
            self.url, ca=self.ca, cert=self.cert, key=self.key, token_file=self.token_file
        )


def takes_url_and_json(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Give both options to a command that connects to a queue manager."""
    return _takes_both(function, url_is_shown=True)


def takes_json(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Give `--json` to a command that connects to no queue manager, or to its own.

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
    function: Callable[Arguments, Result], *, url_is_shown: bool
) -> Callable[Arguments, Result]:
    function = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_note_json,
        help="Print JSON instead of tables.",
    )(function)
    return click.option(
        "--url",
        expose_value=False,
        callback=_note_url,
        metavar="URL",
        hidden=not url_is_shown,
        help="Queue manager to connect to.",
    )(function)


def _note_json(context: click.Context, parameter: click.Parameter, value: object) -> None:
    del parameter
    if value:
        context.ensure_object(Settings).as_json = True


def _note_url(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    del parameter
    if value:
        context.ensure_object(Settings).url = value
