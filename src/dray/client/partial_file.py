"""A file that is there whole and durable, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dray.errors import TargetUnwritable


class PartialFile:
    """Grows as `<path>.partial`. Every method raises `TargetUnwritable`."""

    def __init__(self, target: Path) -> None:
        """Begin it."""
        self.target = target
        self._partial = target.with_name(target.name + ".partial")
        try:
            self._file = self._partial.open("wb", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, piece: memoryview) -> None:
        """Write all of a piece."""
        try:
            while piece:
                piece = piece[os.write(self._file.fileno(), piece) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self) -> None:
        """Make it durable under its own name."""
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.target)
            _sync_directory(self.target.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def discard(self) -> None:
        """Remove what there is of it."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._partial.unlink()

    def _unwritable(self, error: OSError) -> TargetUnwritable:
        return TargetUnwritable(
            f"{self.target} cannot be written: {error.strerror or error}; nothing of it was kept,"
            " free room or give another path, the message is still there",
            path=str(self.target),
        )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
