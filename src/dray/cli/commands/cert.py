"""`dray cert`: certificates for mutual TLS, by an authority of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from dray.cli.settings import CommandGroup, Settings, takes_json
from dray.errors import TargetUnwritable

Made = TypeVar("Made")

_takes_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Directory of the authority's files  [default: the current one].",
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Make an authority, and certificates of queue managers and programs."""


@command.command()
@_takes_folder
@click.option(
    "--days", type=click.IntRange(1, 36_500), help="Days that it is valid  [default: 3650]."
)
@takes_json
def init(settings: Settings, folder: Path, days: int | None) -> None:
    """Make an authority: ca.pem, which every machine gets, and ca.key, which stays here."""
    from dray.daemon.timekeeper import Timekeeper
    from dray.net.certificates import AUTHORITY_DAYS, make_authority

    now = Timekeeper().now()
    files = _written(folder, lambda: make_authority(folder, now=now, days=days or AUTHORITY_DAYS))
    settings.tell(
        {"certificate": str(files[0]), "key": str(files[1])},
        f"{files[0]}: give it to every machine\n"
        f"{files[1]}: keep it secret; whoever has it can make certificates",
    )


@command.command()
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME|IP",
    help="Name or address at which others connect to it; may be repeated.",
)
@_takes_folder
@click.option(
    "--days", type=click.IntRange(1, 36_500), help="Days that it is valid  [default: 825]."
)
@takes_json
def issue(
    settings: Settings, *, name: str, hosts: tuple[str, ...], folder: Path, days: int | None
) -> None:
    """Make NAME.pem: the key and certificate of a queue manager or program, caller cert:NAME."""
    from dray.daemon.timekeeper import Timekeeper
    from dray.net import certificates

    now = Timekeeper().now()
    lasts = days or certificates.CERTIFICATE_DAYS
    file = _written(folder, lambda: certificates.issue(folder, name, hosts, now=now, days=lasts))
    settings.tell(
        {"file": str(file), "caller": f"cert:{name}", "hosts": list(hosts)},
        f"{file}: the key and certificate of cert:{name}, for its machine alone",
    )


def _written(folder: Path, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except OSError as error:
        raise TargetUnwritable(
            f"{error.filename or folder} cannot be used: {error.strerror}; choose another folder"
            " with --dir",
            path=str(error.filename or folder),
        ) from error
