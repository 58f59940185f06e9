"""The identity of a file, which tells its versions apart without reading them."""

from __future__ import annotations

import os
from typing import NamedTuple, Self


class FileIdentity(NamedTuple):
    """Equal for two looks at a path if its file neither changed nor was replaced between them."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """The identity of a file that was looked at."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)
