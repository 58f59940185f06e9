"""Progress of long operations, on standard error.

A bar on a terminal; elsewhere a plain line now and then, and nothing for an operation that ends
before a person would look.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol, Self

import click

from dray.model.sizes import human_size

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

PLAIN_LINE_EVERY_S = 5.0


class ProgressDisplay(Protocol):
    """Progress of one operation, in bytes."""

    def update(self, done: int, total: int | None = None) -> None:
        """Set how many bytes are done."""

    def describe(self, text: str) -> None:
        """Set the description of the current step."""

    def __enter__(self) -> Self:
        """Start showing progress."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Show the last state and leave the terminal as it was."""


def progress(text: str, total: int | None) -> ProgressDisplay:
    """A bar on a terminal, else plain lines."""
    return _Bar(text, total) if sys.stderr.isatty() else _Lines(text, total)


class _Bar:
    """A bar that redraws itself in place."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text, self._total = text, total
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._rich = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._rich.start()
        self._task = self._rich.add_task(self._text, total=self._total)
        return self

    def update(self, done: int, total: int | None = None) -> None:
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, completed=done, total=total)

    def describe(self, text: str) -> None:
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, description=text)

    def __exit__(self, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()


class _Lines:
    """A line at most every few seconds, and one at the end if there was any before."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text, self._total = text, total
        self._done = 0
        self._began = self._printed_at = 0.0
        self._printed = False

    def __enter__(self) -> Self:
        self._began = self._printed_at = time.monotonic()
        return self

    def update(self, done: int, total: int | None = None) -> None:
        self._done = done
        self._total = total if total is not None else self._total
        now = time.monotonic()
        if now - self._printed_at >= PLAIN_LINE_EVERY_S:
            self._printed_at, self._printed = now, True
            self._print(now)

    def describe(self, text: str) -> None:
        self._text = text

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._printed and kind is None:
            self._print(time.monotonic())

    def _print(self, now: float) -> None:
        rate = human_size(self._done / max(now - self._began, 1e-6))
        of_total = f" of {human_size(self._total)}" if self._total else ""
        click.echo(f"{self._text}: {human_size(self._done)}{of_total}, {rate}/s", err=True)
