"""Progress of counted steps, on standard error: a bar on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN_LINE_EVERY_S = 5.0


class Counter(Protocol):
    """Shows how many steps are done."""

    def update(self, done: int) -> None:
        """Set the number of steps done."""


@contextmanager
def counting(text: str, total: int | None) -> Iterator[Counter]:
    """Show the progress of the block."""
    if not sys.stderr.isatty():
        yield _CountLines(text, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=total)

        class Bar:
            def update(self, done: int) -> None:
                shown.update(task, completed=done)

        yield Bar()


class _CountLines:
    """A line at most every few seconds."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text, self._total = text, total
        self._printed_at = time.monotonic()

    def update(self, done: int) -> None:
        if time.monotonic() - self._printed_at >= PLAIN_LINE_EVERY_S:
            self._printed_at = time.monotonic()
            of_total = f" of {self._total:,}" if self._total is not None else ""
            click.echo(f"{self._text}: {done:,}{of_total}", err=True)
