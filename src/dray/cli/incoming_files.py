"""The line that `dray receive` prints for each file of a folder, and its last error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from dray.cli.output import print_json, printable
from dray.model.sizes import human_size

if TYPE_CHECKING:
    from dray.folders import FileNotReceived, FileReceived


class ShownFiles:
    """Prints a line for each message."""

    def __init__(self, *, as_json: bool) -> None:
        """Print JSON, one object in each line, or text."""
        self._as_json = as_json
        self.error: Exception | None = None
        """The error of the last message that was given up."""

    def __call__(self, told: FileReceived | FileNotReceived) -> None:
        """Print one message."""
        from dray.folders import FileReceived

        if isinstance(told, FileReceived):
            self._received(told)
        else:
            self._failed(told)

    def _received(self, told: FileReceived) -> None:
        path = _printable_path(told.path)
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
        path = _printable_path(told.path)
        if self._as_json:
            print_json(
                {"path": path, "id": told.id, "error": str(told.error), "fate": str(told.fate)}
            )
        else:
            click.echo(f"dray: {path}: {told.error}; the message was {told.fate}", err=True)


def _printable_path(path: str) -> str:
    """A path on one line; bytes that are no UTF-8 are shown as escapes."""
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))
