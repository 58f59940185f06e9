"""Received large messages as files of one folder, named after their labels (`placing`)."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from dray.client.blocking.large_message import LargeMessage
from dray.folders.file_receiver import PlacedBody, finish_body
from dray.folders.labels import otherwise_named
from dray.folders.placing import Item, TargetFolder
from dray.large.digests import hashed_file


class FlatTarget:
    """A folder that gets one file for each message."""

    def __init__(self, folder: TargetFolder, *, preserve: bool = False, sync: bool = True) -> None:
        """Place into `folder`; `preserve` keeps time and mode of a file that was sent."""
        self._folder = folder
        self._preserve = preserve
        self._sync = sync

    def place(self, message: LargeMessage, transaction_id: str) -> PlacedBody:
        """Place the body of a message; raises `TargetUnwritable` and as `save_to` does."""
        item = Item(
            message.sequence_id,
            message.label,
            otherwise_named(message.sequence_id),
            transaction_id,
            write=partial(self._write, message),
            is_body=lambda at: is_whole(at, message),
        )
        placed = self._folder.place(item)
        return PlacedBody(
            str(placed.path), placed.path, lambda committed: placed.close(committed=committed)
        )

    def _write(self, message: LargeMessage, part: Path) -> None:
        message.save_to(part, sync=self._sync)
        if self._preserve:
            finish_body(part, message, sync=self._sync)


def is_whole(path: Path, message: LargeMessage) -> bool:
    """Whether a file holds a large message's whole body."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != message.size:
            return False
        return hashed_file(file, message.digest_kind).digest() == message.digest
