"""Places for payloads: a directory that all executors share, or a store (`objects.py`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dray.errors import InvalidConfiguration
from dray.fsync import sync_folder
from dray.spark.failure import disk_told
from dray.spark.landing.messages import check_written
from dray.spark.landing.objects import StorePayloads
from dray.spark.landing.payload import (
    Expected,
    Placement,
    PutPayload,
    file_digest,
    remove_partials,
)
from dray.spark.landing.pieces import Piece, PiecePlacement

_URL_NOTE = Path("_dray") / "payloads"
"""Says to which URL the payloads of a landing went; there is none if they are in the directory."""


class FolderPayloads(NamedTuple):
    """Payloads as files of one directory."""

    folder: Path

    def begin(self) -> None:
        """In the driver, before a landing: make the directory, remove partial files."""
        with disk_told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_partials(self.folder)

    def placement(self, name: str, expected: Expected) -> Placement:
        """On an executor: one payload on its way."""
        return Placement(self.folder / name, expected)

    def piece_placement(
        self, name: str, expected: Expected, piece: Piece, attempt: str
    ) -> PiecePlacement:
        """On an executor: one piece of a payload on its way."""
        return PiecePlacement(self.folder / name, expected, piece, attempt)

    def keep_names(self) -> None:
        """On an executor: have the names of what is in place outlast a crash."""
        sync_folder(self.folder)

    def drop(self, attempt: str) -> None:
        """In the driver: remove the pieces of a micro-batch that nobody puts together."""
        with disk_told(self.folder):
            remove_partials(self.folder, attempt)

    def check(self, put: Sequence[PutPayload]) -> None:
        """In the driver, before the commit: raise `StoreError` if something is not in place."""
        for each in put:
            with disk_told(self.folder):
                check_written(self.folder / each.name, each.size)

    def names(self) -> list[str]:
        """The names of all files that are there."""
        return [path.name for path in self.folder.glob("*")]

    def read_back(self, name: str, kind: str) -> tuple[int, str]:
        """Size and digest of a payload; raises OSError."""
        with (self.folder / name).open("rb") as file:
            return os.fstat(file.fileno()).st_size, file_digest(file, kind)


Payloads = FolderPayloads | StorePayloads
"""The place for payloads. It goes to the executors pickled."""


def payloads_in(folder: str) -> Payloads:
    """The payloads whose places all begin with `folder`, as a landing names it."""
    if "://" in folder:
        return StorePayloads(folder.removesuffix("/payload"))
    return FolderPayloads(Path(folder))


def payloads_of(directory: Path) -> Payloads:
    """The place of the payloads of a landing into `directory`."""
    try:
        return StorePayloads((directory / _URL_NOTE).read_text().strip())
    except FileNotFoundError:
        return FolderPayloads(directory / "payload")


def note_url(directory: Path, url: str | None) -> None:
    """Note where the payloads go; raises `InvalidConfiguration` if earlier ones went elsewhere.

    For an audit has to find them all by one table.
    """
    note = directory / _URL_NOTE
    there = note.read_text().strip() if note.exists() else None
    if there == url:
        return
    if there is not None or (directory / "table").exists():
        where = there or f"the directory {directory / 'payload'}"
        raise InvalidConfiguration(
            f"the payloads of the table in {directory} are in {where}; land into the same place, or"
            " with another state directory"
        )
    with disk_told(directory):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{url}\n")
