"""The files that were received into a tree: their source, their version, and their place in it.

One row for each path of each source, in SQLite, and one for each message that has no path; and
before a file gets its name, one row that says which file is going to have it. A receiver that
starts looks at those files: one that stands under its name was received.
`docs/explanation/received-files.md` has the states.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from dray.client.files.file_identity import FileIdentity
from dray.folders.ledger_database import LedgerDatabase
from dray.folders.tree import OWN_PREFIX

VERSION: Final = "1"
_COLUMNS: Final = "number, sent_us, place, size, mtime_ns, inode"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS placed (
    path BLOB, source TEXT, number INTEGER, sent_us INTEGER, place BLOB, size INTEGER,
    mtime_ns INTEGER, inode INTEGER, PRIMARY KEY (path, source)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (
    path BLOB, source TEXT, number INTEGER, sent_us INTEGER, place BLOB, size INTEGER,
    mtime_ns INTEGER, inode INTEGER, PRIMARY KEY (path, source)
) WITHOUT ROWID;
"""


class ArrivedFile(NamedTuple):
    """The origin of a received file: its path and its source, and which message brought it."""

    path: str
    source: str
    number: int
    sent_us: int
    is_version: bool = True
    """Whether a later one with this path is a newer version of it, and no other file."""

    @property
    def key(self) -> str:
        """Under which the ledger knows it: its path, or a name that no sender may choose."""
        return self.path if self.is_version else f"{OWN_PREFIX}message-{self.number}"


class PlacedVersion(NamedTuple):
    """A version of a file that was received, and where it stands."""

    number: int
    sent_us: int
    place: str
    size: int
    mtime_ns: int
    inode: int

    @property
    def identity(self) -> FileIdentity:
        """Equal for two looks at a file that did not change between them."""
        return FileIdentity(self.size, self.mtime_ns, self.inode)


class ReceivedLedger:
    """The ledger of one tree; its methods may be called from several threads."""

    def __init__(self, file: Path, *, sync: bool) -> None:
        """Open the ledger, made if it is missing, and lock it.

        Raises `StoreLocked` if another process uses it, and `InvalidConfiguration` if it cannot be
        used. Without `sync` nothing waits for the disk.
        """
        self._sync = sync
        self._database = LedgerDatabase(
            file,
            _SCHEMA,
            {"version": VERSION},
            sync=sync,
            used=f"receives into {file.parent.parent}",
            remedy="give another directory to receive into",
        )

    def close(self) -> None:
        """Close the file, so that another process may use it."""
        self._database.close()

    def version(self, origin: ArrivedFile) -> PlacedVersion | None:
        """The version of a file that came last from its source."""
        with self._database.lock:
            row = self._database.execute(
                f"SELECT {_COLUMNS} FROM placed WHERE path = ? AND source = ?",  # noqa: S608 - no values
                (os.fsencode(origin.key), origin.source),
            ).fetchone()
        return None if row is None else _version(row)

    def begin(self, versions: Iterable[tuple[ArrivedFile, PlacedVersion]]) -> None:
        """Note, durably, which files are going to stand at their places."""
        rows = [
            (os.fsencode(origin.key), origin.source, *_values(version))
            for origin, version in versions
        ]
        with self._database.writing(synced=self._sync):
            self._database.execute_many(
                "INSERT OR REPLACE INTO pending VALUES (?,?,?,?,?,?,?,?)", rows
            )

    def finish(self, ends: Iterable[tuple[str, str, bool]]) -> None:
        """Note of keys and sources whether the file of `begin` stands at its place."""
        with self._database.writing():
            for name, source, placed in ends:
                key = (os.fsencode(name), source)
                if placed:
                    self._database.execute(
                        "INSERT OR REPLACE INTO placed SELECT * FROM pending"
                        " WHERE path = ? AND source = ?",
                        key,
                    )
                self._database.execute("DELETE FROM pending WHERE path = ? AND source = ?", key)

    def settle(self, stands: Callable[[PlacedVersion], bool]) -> None:
        """Look at each file that a killed receiver was about to place."""
        rows = self._database.execute(
            f"SELECT path, source, {_COLUMNS} FROM pending ORDER BY path, source"  # noqa: S608 - no values
        ).fetchall()
        self.finish(
            (os.fsdecode(path), source, stands(_version(values))) for path, source, *values in rows
        )


def _values(version: PlacedVersion) -> tuple[object, ...]:
    return version._replace(place=os.fsencode(version.place))  # type: ignore[arg-type]


def _version(values: list[object] | tuple[object, ...]) -> PlacedVersion:
    number, sent_us, place, *marks = values
    return PlacedVersion(number, sent_us, os.fsdecode(place), *marks)  # type: ignore[arg-type]
