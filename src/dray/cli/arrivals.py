"""`--wait`: a command ends once its messages have arrived.

The acknowledgments come to a queue that the command makes for itself and deletes at its end.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

import click

import dray
from dray.cli.option_types import in_seconds
from dray.errors import DeliveryRefused
from dray.model.classes import Acknowledge

_OPTION: Final = "--wait"
_BARE: Final = "accepted"
_ID_BYTES: Final = 8
_ASKED: Final = {"accepted": Acknowledge.FULL_REACH_QUEUE, "received": Acknowledge.FULL_RECEIVE}


class Wait(NamedTuple):
    """The option: what to wait for, and for how long; None is for ever."""

    until: Literal["accepted", "received"]
    seconds: float | None


def wait_value(value: str) -> Wait:
    """Read SECONDS, received, or received,SECONDS; another text is a usage error."""
    until, seconds = "accepted", None
    for part in value.split(","):
        if part in _ASKED:
            until = part
            continue
        try:
            seconds = in_seconds(part)
        except ValueError:
            seconds = -1.0
        if not seconds >= 0:
            raise click.BadParameter(
                f"{value!r} is neither a number of seconds nor 'received'; write --wait,"
                " --wait=60, --wait=received or --wait=received,60."
            )
    return Wait("received" if until == "received" else "accepted", seconds)


class WaitingCommand(click.Command):
    """A command with `--wait`, which takes a value only behind an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare `--wait` its value, so that it does not take the next argument."""
        end = args.index("--") if "--" in args else len(args)
        options = [f"{_OPTION}={_BARE}" if each == _OPTION else each for each in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


wait_option = click.option(
    _OPTION,
    type=wait_value,
    metavar="[=SECONDS|received]",
    help=(
        "End once the destination has accepted everything, or with --wait=received once a receiver"
        " has committed it; SECONDS is the longest wait."
    ),
)


watch_wait_option = click.option(
    _OPTION,
    type=wait_value,
    metavar="[=received]",
    help=(
        "Delete or move a file (--after) only once its destination has accepted it, or with"
        " --wait=received once a receiver has committed it."
    ),
)


class Arrivals:
    """The messages of one command, and the queue of their acknowledgments."""

    def __init__(self, manager: dray.Manager, queue: str, wait: Wait) -> None:
        """Wait for acknowledgments in `queue`."""
        self._manager = manager
        self._queue = queue
        self._wait = wait

    @property
    def properties(self) -> dict[str, Any]:
        """Properties to send each message with."""
        return {
            "administration_queue": self._queue,
            "acknowledge": _ASKED[self._wait.until],
        }

    def wait_for(self, names: Mapping[str, str]) -> None:
        """Wait for messages; `names` maps their ids to what people call them.

        Raises `DeliveryRefused` with that name, and `DeliveryTimeout`.
        """
        until, seconds = self._wait
        try:
            self._manager.wait_for_delivery(list(names), self._queue, until=until, timeout=seconds)
        except DeliveryRefused as error:
            raise DeliveryRefused(f"{names[error.id]}: {error}", **error.fields) from error


@contextmanager
def arrivals_at(manager: dray.Manager, wait: Wait | None) -> Iterator[Arrivals | None]:
    """Make the queue for acknowledgments, and delete it at the end; None without `--wait`."""
    if wait is None:
        yield None
        return
    name = f"arrivals-{secrets.token_hex(_ID_BYTES)}"
    manager.create_queue(name, label="acknowledgments for `dray send --wait`")
    try:
        yield Arrivals(manager, name, wait)
    finally:
        manager.delete_queue(name)
