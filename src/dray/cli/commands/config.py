"""`dray config`: files of options for `dray serve`: write one, or check one before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.settings import CommandGroup, Settings, takes_json
from dray.errors import InvalidConfiguration, TargetUnwritable
from dray.model.words import counted

if TYPE_CHECKING:
    from dray.daemon.config import ServeOptions


@click.group(cls=CommandGroup)
def command() -> None:
    """Write a file of options, or check one."""


@command.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@takes_json
def init(settings: Settings, file: Path | None) -> None:
    """Write a file with every option and its default to FILE, or to standard output.

    Each option is a comment except the data directory. FILE must not exist.
    """
    from dray.daemon.example import example_file

    text = example_file()
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as target:
            try:
                target.write(text)
                target.flush()
            except OSError:
                # Half a file of ours would be in the way of the same command.
                file.unlink()
                raise
    except OSError as error:
        raise TargetUnwritable(
            f"{file} cannot be written: {error.strerror}; choose another name", path=str(file)
        ) from error
    settings.tell({"file": str(file)}, f"wrote {file}; edit it, then `dray config check {file}`")


@command.command()
@click.argument("file", type=click.Path(dir_okay=False))
@takes_json
def check(settings: Settings, file: str) -> None:
    """Check every option and access rule of FILE, without starting anything.

    It also reads the certificates, authorities and tokens that FILE names. So run it as the account
    and in the directory of `dray serve`.
    """
    from dray.daemon.config import read_file

    options = read_file(file)
    try:
        _read_files(options)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{file}: {error}") from error
    rules = [str(each) for each in options.access_rules().rules]
    settings.tell(
        {"file": file, "data": options.data or None, "access": rules},
        f"{file} is good: data directory {options.data or 'left to --data'},"
        f" {counted(len(rules), 'access rule')}",
    )


def _read_files(options: ServeOptions) -> None:
    """Read the files that a queue manager would; raises `InvalidConfiguration`."""
    from dray.net.tls import presenting, trusting

    if options.tls_cert is not None:
        presenting(options.tls_cert, options.tls_key, options.tls_client_ca)
    if options.tls_ca is not None:
        trusting(options.tls_ca, options.tls_cert, options.tls_key)
    options.peer_tokens()
