"""Which files were received into a tree: from which source, which version, and where it stands.

One row for each path of each source, in SQLite; and before a file gets its name, one row that says
which file is going to have it. A receiver that starts looks at those files: one that stands under
its name was received. `docs/explanation/received-files.md` has the states.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from dray.errors import InvalidConfiguration, StoreLocked
from dray.own_files import open_own

VERSION: Final = "1"
_COLUMNS: Final = "number, sent_us, place, size, mtime_ns, inode"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
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


class PlacedVersion(NamedTuple):
    """A version of a file that was received, and where it stands."""

    number: int
    sent_us: int
    place: str
    size: int
    mtime_ns: int
    inode: int

    @property
    def marks(self) -> tuple[int, int, int]:
        """Equal for two looks at a file that did not change between them."""
        return self.size, self.mtime_ns, self.inode


class ReceivedLedger:
    """The ledger of one tree; its methods may be called from several threads."""

    def __init__(self, file: Path, *, sync: bool) -> None:
        """Open the ledger, made if it is missing, and lock it.

        Raises `StoreLocked` if another process uses it, and `InvalidConfiguration` if it cannot be
        used. Without `sync` nothing waits for the disk.
        """
        self._lock = threading.RLock()
        self._sync = sync
        try:
            os.close(open_own(file))
            self._database = sqlite3.connect(
                file, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise _unusable(file, error) from error
        try:
            self._prepare()
        except BaseException as error:
            self._database.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise StoreLocked(
                    f"another process receives into {file.parent.parent}; end it, or give another"
                    " directory"
                ) from error
            if isinstance(error, (OSError, sqlite3.Error)):
                raise _unusable(file, error) from error
            raise

    def close(self) -> None:
        """Close the file, so that another process may use it."""
        self._database.close()

    def version(self, path: str, source: str) -> PlacedVersion | None:
        """The version of a path that came last from a source."""
        return self._row("placed", path, source)

    def begin(self, origin: ArrivedFile, version: PlacedVersion) -> None:
        """Note, durably, which file is going to stand at its place."""
        values = (os.fsencode(origin.path), origin.source, *_values(version))
        with self._writing(synced=self._sync):
            self._database.execute(
                "INSERT OR REPLACE INTO pending VALUES (?,?,?,?,?,?,?,?)", values
            )

    def finish(self, path: str, source: str, *, placed: bool) -> None:
        """Note that the file of `begin` stands at its place, or does not."""
        key = (os.fsencode(path), source)
        with self._writing():
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
        for path, source, *values in rows:
            placed = stands(_version(values))
            self.finish(os.fsdecode(path), source, placed=placed)

    def _row(self, table: str, path: str, source: str) -> PlacedVersion | None:
        with self._lock:
            row = self._database.execute(
                f"SELECT {_COLUMNS} FROM {table} WHERE path = ? AND source = ?",  # noqa: S608 - no values
                (os.fsencode(path), source),
            ).fetchone()
        return None if row is None else _version(row)

    @contextmanager
    def _writing(self, *, synced: bool = False) -> Iterator[None]:
        """One transaction of the ledger; if `synced`, it and those before it are on disk after."""
        with self._lock:
            self._database.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
            with self._database:
                self._database.execute("BEGIN")
                yield

    def _prepare(self) -> None:
        # The lock lasts until the file is closed, and the kernel ends it with the process.
        self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.executescript(_SCHEMA)
        with self._writing(synced=self._sync):
            self._database.execute("INSERT OR IGNORE INTO about VALUES ('version', ?)", (VERSION,))


def _values(version: PlacedVersion) -> tuple[object, ...]:
    return version._replace(place=os.fsencode(version.place))  # type: ignore[arg-type]


def _version(values: list[object] | tuple[object, ...]) -> PlacedVersion:
    number, sent_us, place, *marks = values
    return PlacedVersion(number, sent_us, os.fsdecode(place), *marks)  # type: ignore[arg-type]


def _unusable(file: Path, error: Exception) -> InvalidConfiguration:
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    return InvalidConfiguration(
        f"the ledger {file} cannot be used: {why}; give another directory to receive into"
    )
