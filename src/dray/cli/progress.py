"""Progress of long operations, on standard error.

A bar on a terminal; elsewhere a plain line now and then, and nothing for an operation that ends
before a person would look.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import click

from dray.errors import in_one_line
from dray.model.words import human_size

if TYPE_CHECKING:
    from types import FrameType

PLAIN_LINE_EVERY_S = 5.0


AmountText = Callable[[int, int | None, float], str]
"""The progress in words: the part that is done, the whole, and the rate."""


def bytes_text(done: int, total: int | None, rate: float) -> str:
    """Bytes: everywhere in the same units."""
    of_total = f" of {human_size(total)}" if total else ""
    return f"{human_size(done)}{of_total}, {human_size(rate)}/s"


def steps_text(done: int, total: int | None, _rate: float) -> str:
    """Steps."""
    return f"{done:,}" if total is None else f"{done:,} of {total:,}"


def progress(text: str, total: int | None, amount: AmountText = bytes_text) -> ProgressDisplay:
    """A bar on a terminal, else plain lines. A sender may have chosen the text."""
    kind = _Bar if sys.stderr.isatty() else _Lines
    return kind(in_one_line(text), total, amount)


class _Bar:
    """A bar that redraws itself in place."""

    def __init__(self, text: str, total: int | None, amount: AmountText) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._total, self._amount = total, amount
        self._rich = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._rich.add_task(text, total=total, amount="")
        self._began = time.monotonic()
        self._ends_us = False

    def __enter__(self) -> Self:
        self._rich.start()
        self._watch_for_end()
        return self

    def _watch_for_end(self) -> None:
        """Show the cursor again when SIGTERM ends the program."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # A program with a handler of its own ends by itself, and the bar with it.
            self._ends_us = True
            signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._rich.stop()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def update(self, done: int, total: int | None = None) -> None:
        """Set how many bytes or steps are done."""
        rate = done / max(time.monotonic() - self._began, 1e-6)
        amount = self._amount(done, total if total is not None else self._total, rate)
        self._rich.update(self._task, completed=done, total=total, amount=amount)

    def describe(self, text: str) -> None:
        """Set the description of the current step."""
        self._rich.update(self._task, description=in_one_line(text))

    def __exit__(self, *_: object) -> None:
        """Show the last state and leave the terminal as it was."""
        self._rich.stop()
        if self._ends_us:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Lines:
    """A line at most every few seconds, and one at the end if there was any before."""

    def __init__(self, text: str, total: int | None, amount: AmountText) -> None:
        self._text, self._total, self._amount = text, total, amount
        self._done = self._told = 0
        self._began = self._printed_at = 0.0
        self._printed = False

    def __enter__(self) -> Self:
        self._began = self._printed_at = time.monotonic()
        return self

    def update(self, done: int, total: int | None = None) -> None:
        self._done = done
        self._total = total if total is not None else self._total
        now = time.monotonic()
        # A line that says no more than the one before it helps nobody.
        if now - self._printed_at >= PLAIN_LINE_EVERY_S and done > self._told:
            self._printed_at, self._printed = now, True
            self._print(now)

    def describe(self, text: str) -> None:
        self._text = in_one_line(text)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._printed and kind is None and self._done > self._told:
            self._print(time.monotonic())

    def _print(self, now: float) -> None:
        self._told = self._done
        rate = self._done / max(now - self._began, 1e-6)
        click.echo(f"{self._text}: {self._amount(self._done, self._total, rate)}", err=True)


ProgressDisplay = _Bar | _Lines
"""Progress of one operation, in bytes or steps."""
