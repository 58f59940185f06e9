"""`dray config`: files of options for `dray serve`, looked at before a queue manager uses them."""

from __future__ import annotations

import click

from dray.cli.groups import CommandGroup
from dray.cli.output import print_json
from dray.cli.settings import Settings, takes_json


@click.group(cls=CommandGroup)
def command() -> None:
    """Check a file of options."""


@command.command()
@click.argument("file", type=click.Path(dir_okay=False))
@takes_json
@click.pass_obj
def check(settings: Settings, file: str) -> None:
    """Check every option and access rule of FILE, without starting anything."""
    from dray.daemon.config import read_options

    options = read_options(file)
    rules = [str(each) for each in options.access_rules().rules]
    if settings.as_json:
        print_json({"file": file, "data": options.data, "access": rules})
        return
    click.echo(f"{file} is good: data directory {options.data}, {len(rules)} access rules")
