"""`dray top`: depths, rates and ages of the queues, on one screen."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from dray.cli.output import print_json, print_table, size_text
from dray.cli.queue_text import state_of
from dray.cli.rates import Rates, look_at_all, rates_between
from dray.cli.seconds import Seconds
from dray.cli.settings import Settings, takes_url_and_json
from dray.cli.words import duration
from dray.model.classes import QueueKind

if TYPE_CHECKING:
    from dray.cli.rates import Look
    from dray.client.blocking.manager import Manager

_KINDS = frozenset({QueueKind.PRIVATE, QueueKind.OUTGOING, QueueKind.SUB})
_COLUMNS = [
    "queue", "messages ", "large ", "size ", "in/s ", "out/s ", "in flight ", "oldest ", "state",
]  # fmt: skip
_LINES_BESIDE = 6
"""Lines of a terminal that the frame of a table and the line above it take."""
_DAY_S = 86_400
_TOP_LEFT = "\x1b[H\x1b[J"


@click.command()
@click.option(
    "--once", is_flag=True, help="Print one table and end; so it is where no terminal is."
)
@click.option(
    "--interval",
    type=Seconds(0.05, _DAY_S),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks, over which rates are taken.",
)
@takes_url_and_json
@click.pass_obj
def command(settings: Settings, *, once: bool, interval: float) -> None:
    """Show depth, rates, messages in flight and age of the oldest message of each queue.

    The busiest queues come first. Ctrl-C ends it.
    """
    with settings.connect() as manager:
        before = look_at_all(manager, _KINDS)
        while True:
            time.sleep(interval)
            now = look_at_all(manager, _KINDS)
            rows = sorted(
                ((look, rates_between(before.get(name), look)) for name, look in now.items()),
                key=lambda each: (-sum(each[1]), -each[0].info.message_count, each[0].info.name),
            )
            if settings.as_json:
                print_json([_values(*row) for row in rows])
            else:
                _print(manager, rows, draws=not once and sys.stdout.isatty())
            if once or not sys.stdout.isatty():
                return
            before = now


def _print(manager: Manager, rows: list[tuple[Look, Rates]], *, draws: bool) -> None:
    if draws:
        info = manager.info()
        rows = rows[: max(1, os.get_terminal_size().lines - _LINES_BESIDE)]
        used = f"{size_text(info.bytes_used)} of {size_text(info.quota)}"
        click.echo(f"{_TOP_LEFT}{info.name}, {used}, {size_text(info.disk_free)} free on the disk")
    print_table(_COLUMNS, (_row(*row) for row in rows))


def _row(look: Look, rates: Rates) -> list[str]:
    info = look.info
    return [
        info.name,
        f"{info.message_count:,}",
        str(info.large_count),
        size_text(info.byte_count),
        f"{rates.arriving:,.1f}",
        f"{rates.leaving:,.1f}",
        "" if info.delivery is None else str(info.delivery.in_flight),
        "" if look.oldest is None else duration(look.when - look.oldest),
        state_of(info),
    ]


def _values(look: Look, rates: Rates) -> dict[str, object]:
    info = look.info
    return {
        "queue": info.name,
        "message_count": info.message_count,
        "large_count": info.large_count,
        "byte_count": info.byte_count,
        "arriving_per_s": rates.arriving,
        "leaving_per_s": rates.leaving,
        "in_flight": 0 if info.delivery is None else info.delivery.in_flight,
        "oldest_s": None if look.oldest is None else look.when - look.oldest,
        "state": info.state,
    }
