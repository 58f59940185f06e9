"""`dray token`: texts by which programs and other queue managers prove who they are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import click

import dray
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.errors import ConnectionLost, StoreLocked
from dray.model.words import time_text
from dray.store.reading import ReadOnlyDisk

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")


def time_span(value: str) -> float:
    """Read a number with a unit, such as 90d, as seconds; another text is a usage error."""
    found = _SPAN.fullmatch(value)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a time: write a number and s, m, h, d or w")
    return float(int(found[1]) * _SECONDS[found[2]])


_takes_data = click.option(
    "--data",
    metavar="DIR",
    help="Data directory of the queue manager, which need not run.",
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list and revoke tokens."""


@command.command()
@click.argument("name")
@click.option(
    "--expires", type=time_span, metavar="TIME", help="When, such as 90d  [default: never]."
)
@_takes_data
@takes_url_and_json
def create(settings: Settings, *, name: str, expires: float | None, data: str | None) -> None:
    """Print a new token, once: its holder is the caller token:NAME."""
    # A name that is too long for any file fails where it is used, with a sentence of its own.
    is_new = data is not None and not os.path.exists(data)  # noqa: PTH110 - it raises nothing
    with _owned(settings, data, may_begin=True) as manager:
        token = manager.create_token(name, expires)
    if is_new:
        click.echo(f"dray: {data} is a new data directory", err=True)
    settings.tell({"caller": f"token:{name}", "token": token}, token)


@command.command("list")
@_takes_data
@takes_url_and_json
def list_tokens(settings: Settings, data: str | None) -> None:
    """List the tokens by name, and when each expires."""
    with _owned(settings, data) as manager:
        tokens = manager.tokens()
    settings.tell_all(tokens, ["token", "created", "expires"], _row)


@command.command()
@click.argument("name")
@_takes_data
@takes_url_and_json
def revoke(settings: Settings, name: str, data: str | None) -> None:
    """Revoke the token NAME, and end the connections of its callers."""
    with _owned(settings, data) as manager:
        manager.revoke_token(name)
    settings.tell({"revoked": name}, f"revoked the token {name}")


def _row(token: dray.TokenInfo) -> list[str]:
    expires = time_text(token.expires) if token.expires else "never"
    return [token.name, time_text(token.created), expires]


def _owned(settings: Settings, data: str | None, *, may_begin: bool = False) -> dray.Manager:
    """The queue manager as its owner: the one that runs, or that of a data directory.

    Raises `StoreError` for a directory without one, unless a new one may begin there.
    """
    from dray.net.doors import socket_of

    if data is None:
        return settings.connect()
    connect: Callable[[str], dray.Manager] = dray.connect
    try:
        return connect(f"dray+unix://{socket_of(data)}")
    except ConnectionLost:
        if not may_begin:
            ReadOnlyDisk(data)
        try:
            return dray.open(data)
        except StoreLocked as error:
            raise StoreLocked(
                f"the queue manager of {data} runs and does not listen on {socket_of(data)}; name"
                " its Unix socket with --url dray+unix://PATH (`dray serve --socket PATH`), or stop"
                " it first"
            ) from error
