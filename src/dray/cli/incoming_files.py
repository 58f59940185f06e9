"""The line that `dray receive` prints for each file of a folder, and its last error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import click

import dray
from dray.cli.output import print_json, printable_path
from dray.errors import DrayError, ReceiveTimeout
from dray.folders import FileNotReceived, FileReceived
from dray.model.words import counted, human_size

SAID_AFTER_S = 2.0
"""A person begins to wonder."""
_Taken = TypeVar("_Taken")


class ShownFiles:
    """Prints a line for each message."""

    def __init__(self, *, as_json: bool) -> None:
        """Print JSON, one object in each line, or text."""
        self._as_json = as_json
        self.error: Exception | None = None
        """The error of the last message that was given up."""
        self._received_count = self._given_up_count = 0

    def __call__(self, told: FileReceived | FileNotReceived) -> None:
        """Print one message."""
        from dray.folders import FileReceived

        if isinstance(told, FileReceived):
            self._received(told)
        else:
            self._failed(told)

    def note_of(self, queue: str) -> str:
        """One sentence: which messages of a queue are received, and where the others are."""
        given_up = f", {counted(self._given_up_count)} given up" if self._given_up_count else ""
        received = f"{counted(self._received_count)} received{given_up}"
        return f"{received}; every other message is still in {queue}"

    def _received(self, told: FileReceived) -> None:
        self._received_count += 1
        path = printable_path(told.path)
        if self._as_json:
            print_json(
                {"path": path, "size": told.size, "id": told.id, "skipped": told.skipped or None}
            )
        elif told.skipped:
            click.echo(f"passed over {path}: {told.skipped}")
        else:
            click.echo(f"received {path} ({human_size(told.size)})")

    def _failed(self, told: FileNotReceived) -> None:
        from dray.client.awaited.receiver import Fate

        if told.fate is not Fate.RETRIED:
            self.error = told.error
            self._given_up_count += 1
        path = printable_path(told.path)
        if self._as_json:
            print_json(
                {"path": path, "id": told.id, "error": str(told.error), "fate": str(told.fate)}
            )
        else:
            click.echo(f"dray: {path}: {told.error}; the message was {told.fate}", err=True)


def patiently(
    take: Callable[[float | None], _Taken],
    wait: float | None,
    waits_for: Callable[[], str],
    nothing: str,
) -> _Taken:
    """Take something within `wait` seconds; after a moment without it say what is waited for.

    Raises `ReceiveTimeout`; `nothing` says what has not come.
    """
    if wait is not None and wait <= SAID_AFTER_S:
        return take(wait)
    with suppress(ReceiveTimeout):
        return take(SAID_AFTER_S)
    click.echo(f"dray: {waits_for()}", err=True)
    if wait is None:
        return take(None)
    try:
        return take(wait - SAID_AFTER_S)
    except ReceiveTimeout as error:
        # That one names the rest of the time only.
        raise ReceiveTimeout(f"{nothing} within {wait:g} s") from error


def say_that_it_waits(queue: dray.Queue, wait: float | None) -> float | None:
    """Say what is waited for after a moment without it; return the rest of the wait."""
    if wait is not None and wait <= SAID_AFTER_S:
        return wait
    try:
        dray.LargeMessageQueue(queue).peek(SAID_AFTER_S).close()
    except ReceiveTimeout:
        click.echo(f"dray: {waits_for(queue, large=True)}", err=True)
        return None if wait is None else wait - SAID_AFTER_S
    except DrayError:
        # The receive meets it, too.
        pass
    return wait


def waits_for(queue: dray.Queue, *, large: bool) -> str:
    """The kind of message that is waited for, and why none of those there will do."""
    kind = "large message" if large else "message"
    info = queue.info()
    count = info.large_count if large else info.message_count
    there = ""
    if count:
        advice = f"see `dray doctor {shlex.quote(queue.name)}`"
        there = f"; {counted(count, kind)} in it cannot be taken yet, {advice}"
    return f"waiting for a {kind} in {queue.name!r}{there} (Ctrl-C ends it)"
