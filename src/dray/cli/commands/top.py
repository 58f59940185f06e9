"""`dray top`: depths, rates and ages of the queues, on one screen."""

from __future__ import annotations

import os
import sys
import time

import click

import dray
from dray.cli.option_types import Seconds
from dray.cli.output import print_json, print_table
from dray.cli.queue_text import state_of
from dray.cli.settings import Settings, takes_url_and_json
from dray.errors import QueueNotFound
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.rates import Rates, rates_between, span_of_looks
from dray.model.words import duration, size_text

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
    "--once", is_flag=True, help="Print one table and end; the default without a terminal."
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
def command(settings: Settings, *, once: bool, interval: float) -> None:
    """Show depth, rates, messages in flight and age of the oldest message of each queue.

    The busiest queues come first. Ctrl-C ends it.
    """
    with settings.connect() as manager:
        before, looked = _look(manager)
        while True:
            time.sleep(interval)
            now, when = _look(manager)
            seconds = span_of_looks(when - looked, manager.info().uptime)
            rows = sorted(
                (
                    (info, rates_between(before.get(name), info, seconds))
                    for name, info in now.items()
                ),
                key=lambda each: (-sum(each[1]), -each[0].message_count, each[0].name),
            )
            if settings.as_json:
                print_json([_values(*row) for row in rows])
            else:
                _print(manager, rows, draws=not once and sys.stdout.isatty())
            if once or not sys.stdout.isatty():
                return
            before, looked = now, when


def _look(manager: dray.Manager) -> tuple[dict[str, QueueInfo], float]:
    """The queues by name, and when that was."""
    found = {each.name: each for each in manager.queues() if each.kind in _KINDS}
    for name in [each.name for each in found.values() if each.kind is QueueKind.OUTGOING]:
        try:
            found[name] = manager.queue(name).info()
        except QueueNotFound:
            del found[name]
    return found, time.time()


def _print(manager: dray.Manager, rows: list[tuple[QueueInfo, Rates]], *, draws: bool) -> None:
    if draws:
        info = manager.info()
        rows = rows[: max(1, os.get_terminal_size().lines - _LINES_BESIDE)]
        used = f"{size_text(info.bytes_used)} of {size_text(info.quota)}"
        click.echo(f"{_TOP_LEFT}{info.name}, {used}, {size_text(info.disk_free)} free on the disk")
    print_table(_COLUMNS, (_row(*row) for row in rows))


def _row(info: QueueInfo, rates: Rates) -> list[str]:
    return [
        info.name,
        f"{info.message_count:,}",
        str(info.large_count),
        size_text(info.byte_count),
        f"{rates.arriving:,.1f}",
        f"{rates.leaving:,.1f}",
        "" if info.delivery is None else str(info.delivery.in_flight),
        "" if info.oldest_time is None else duration(time.time() - info.oldest_time),
        state_of(info),
    ]


def _values(info: QueueInfo, rates: Rates) -> dict[str, object]:
    return {
        "queue": info.name,
        "message_count": info.message_count,
        "large_count": info.large_count,
        "byte_count": info.byte_count,
        "arriving_per_s": rates.arriving,
        "leaving_per_s": rates.leaving,
        "in_flight": 0 if info.delivery is None else info.delivery.in_flight,
        "oldest_s": None if info.oldest_time is None else time.time() - info.oldest_time,
        "state": info.state,
    }
