"""Asks before something is destroyed: on a terminal; elsewhere it has to be said with `--yes`."""

from __future__ import annotations

import sys

import click

asks = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")
"""The option of a command that destroys something."""


def make_sure(what: str, *, yes: bool) -> None:
    """Return if the user wants it; raises `Abort` or a usage error if not."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"This would {what}. Give --yes if you want that.")
    click.confirm(f"This will {what}. Do it?", abort=True, err=True)
