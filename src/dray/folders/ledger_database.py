"""The SQLite file of a ledger. One process has it open at a time; a table says whose it is."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dray.errors import DrayError, InvalidConfiguration, StoreLocked
from dray.folders.unusable import unusable
from dray.fsync import sync_folder
from dray.own_files import open_own

_ABOUT: Final = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class LedgerDatabase:
    """An open and locked file; several threads may use it, each under `lock`."""

    def __init__(
        self,
        file: Path,
        schema: str,
        about: Mapping[str, str],
        *,
        sync: bool = True,
        used: str,
        remedy: str,
    ) -> None:
        """Open the file and lock it. A new file gets `about`; the notes of an old one stay.

        Raises `StoreLocked` if another process has it open, which says how it is `used` there, and
        `InvalidConfiguration` if it cannot be used, or `TargetUnwritable` while the disk is full.
        Each ends with the `remedy`. Without `sync` a new file does not wait for the disk.
        """
        self.lock = threading.RLock()
        self.about: dict[str, str] = {}
        self._file = file
        try:
            os.close(open_own(file))
            self._was = file.lstat()
            self._connection = sqlite3.connect(
                file, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise unusable_ledger(file, error, remedy) from error
        try:
            self._prepare(file, schema, about, sync=sync)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise StoreLocked(f"another process {used}; end it, or {remedy}") from error
            if isinstance(error, (OSError, sqlite3.Error)):
                raise unusable_ledger(file, error, remedy) from error
            raise

    def close(self) -> None:
        """Close the file, so that another process may use it."""
        self._connection.close()

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement; gives its rows."""
        return self._connection.execute(statement, tuple(values))

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of the rows."""
        self._connection.executemany(statement, rows)

    @contextmanager
    def writing(self, *, synced: bool = False) -> Iterator[None]:
        """One transaction of the ledger; if `synced`, it and those before it are on disk after.

        Raises `InvalidConfiguration` if the file was removed: nobody would find the notes again.
        """
        self.check_there()
        with self.lock:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
            with self._connection:
                self._connection.execute("BEGIN")
                yield

    def check_there(self) -> None:
        """Raise `InvalidConfiguration` if the open file is not the one of its name any more."""
        try:
            there = os.path.samestat(self._file.lstat(), self._was)
        except OSError:
            there = False
        if not there:
            raise InvalidConfiguration(
                f"the ledger {self._file} was removed or replaced while Dray used it; put it back"
                " before you start again, since a new ledger knows of no file"
            )

    def _prepare(self, file: Path, schema: str, about: Mapping[str, str], *, sync: bool) -> None:
        # The lock lasts until the file is closed, and the kernel ends it with the process.
        self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(_ABOUT + schema)
        self.about = dict(self._connection.execute("SELECT key, value FROM about"))
        if self.about:
            return
        self.about = dict(about)
        with self.writing(synced=sync):
            self.execute_many("INSERT INTO about VALUES (?,?)", about.items())
        if sync:
            sync_folder(file.parent)
            sync_folder(file.parent.parent)


def unusable_ledger(file: Path, error: Exception, remedy: str) -> DrayError:
    """The error for a ledger that cannot be opened or made."""
    return unusable(file, f"the ledger {file} cannot be used", error, remedy)
