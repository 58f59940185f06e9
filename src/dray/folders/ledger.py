"""The files of a folder that were sent: a ledger on disk that knows more than a crash can undo.

One row for each file that was sent, with its size, time and inode; and before each commit, one row
for each file in it, with the id of the transaction. A program that starts asks the queue manager
for the outcome of every transaction that still has such rows. `docs/explanation/folders.md` has the
states. SQLite keeps it, and syncs the rows of a transaction before that one commits.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from dray.errors import InvalidConfiguration, TargetUnwritable
from dray.folders.ledger_database import LedgerDatabase, unusable_ledger
from dray.folders.tree import FoundFile

VERSION: Final = "1"
_NAME_BYTES: Final = 8
_FILE: Final = "ledger.sqlite"
_REMEDY: Final = "give another directory for the state"
_ASKED_AT_ONCE: Final = 500
"""Paths in one query; SQLite takes at least 999 values."""
_SENT: Final = 0
_TO_CLEAR: Final = 1
_TO_ARRIVE: Final = 2
"""To be removed from the folder once it has arrived; it stays as long as nobody knows."""
_STAYS: Final = 3
"""To be removed from the folder, and it could not be at the last attempt."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, inode INTEGER, state INTEGER,
    message TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS to_clear ON files (state) WHERE state = 1;
CREATE INDEX IF NOT EXISTS stays ON files (state) WHERE state = 3;
CREATE INDEX IF NOT EXISTS to_arrive ON files (message) WHERE state = 2;
CREATE TABLE IF NOT EXISTS pending (
    path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, inode INTEGER, transaction_id TEXT,
    message TEXT
) WITHOUT ROWID;
"""


class FolderLedger:
    """The ledger of one folder and one queue; a context manager. Use it from one thread."""

    def __init__(self, folder: Path, *, manager_id: str, queue: str) -> None:
        """Open the ledger in `folder`, made if it is missing, and lock it.

        Raises `StoreLocked` if another process uses it, and `InvalidConfiguration` if it is the
        ledger of another queue or cannot be used.
        """
        file = folder / _FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable_ledger(file, error, _REMEDY) from error
        about = {"version": VERSION, "manager": manager_id, "queue": queue}
        new = about | {"arrivals": f"arrivals-{secrets.token_hex(_NAME_BYTES)}"}
        self._database = LedgerDatabase(
            file, _SCHEMA, new, used=f"uses the ledger in {folder}", remedy=_REMEDY
        )
        self._file = file
        self._manager_id = manager_id
        noted = self._database.about
        self.arrivals = noted.get("arrivals", "")
        """The name of a queue for acknowledgments of files that are in this ledger."""
        if noted != about | {"arrivals": self.arrivals}:
            self.close()
            raise InvalidConfiguration(
                f"{folder} is the ledger of queue {noted.get('queue')!r} at queue manager"
                f" {noted.get('manager')}, not of {queue!r} at {manager_id}; {_REMEDY}"
            )

    def check_manager(self, manager_id: str) -> None:
        """Raise `InvalidConfiguration` if another queue manager answers than when it was opened."""
        if manager_id != self._manager_id:
            raise InvalidConfiguration(
                f"queue manager {manager_id} answers now in the place of {self._manager_id}, to"
                f" which the files of the ledger were sent; start that one again, or {_REMEDY}"
            )

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether there is a ledger in `folder`."""
        return (folder / _FILE).exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, so that another process may use it."""
        self._database.close()

    def not_sent(self, found: Sequence[FoundFile], *, changed: bool) -> list[FoundFile]:
        """The files that were not sent, and with `changed` those that have another version now.

        Raises `InvalidConfiguration` if the ledger was removed. So do the calls that note; they
        raise `TargetUnwritable` if the ledger cannot be written.
        """
        self._database.check_there()
        known: dict[bytes, tuple[int, int, int]] = {}
        for start in range(0, len(found), _ASKED_AT_ONCE):
            paths = [os.fsencode(each.path) for each in found[start : start + _ASKED_AT_ONCE]]
            marks = ",".join("?" * len(paths))
            for table in ("files", "pending"):
                rows = self._database.execute(
                    f"SELECT path, size, mtime_ns, inode FROM {table}"  # noqa: S608 - no values
                    f" WHERE path IN ({marks})",
                    paths,
                )
                known |= {path: (size, mtime, inode) for path, size, mtime, inode in rows}
        new = []
        for each in found:
            version = known.get(os.fsencode(each.path))
            if version is None or (changed and version != each.version):
                new.append(each)
        return new

    def begin(
        self,
        transactions: Iterable[tuple[str, Sequence[FoundFile]]],
        messages: Mapping[str, str] | None = None,
    ) -> None:
        """Note, durably, which files each transaction will have sent if it commits.

        `messages` has the ids of their messages by path, if their arrival is of interest.
        """
        ids = messages or {}
        rows = [
            (os.fsencode(each.path), *each.version, transaction_id, ids.get(each.path))
            for transaction_id, files in transactions
            for each in files
        ]
        with self._writing(synced=True):
            self._database.execute_many("INSERT OR REPLACE INTO pending VALUES (?,?,?,?,?,?)", rows)

    def pending(self) -> dict[str, list[FoundFile]]:
        """The files of each transaction whose outcome is not noted yet."""
        found: dict[str, list[FoundFile]] = {}
        rows = self._database.execute(
            "SELECT path, size, mtime_ns, inode, transaction_id FROM pending ORDER BY path"
        )
        for path, size, mtime_ns, inode, transaction_id in rows:
            file = FoundFile(os.fsdecode(path), size, mtime_ns, inode)
            found.setdefault(transaction_id, []).append(file)
        return found

    def settle(
        self, outcomes: Iterable[tuple[str, bool]], *, clear: bool = False, arrives: bool = False
    ) -> None:
        """Note outcomes of transactions: True if it committed.

        With `clear` the files of committed ones are to be removed from their folder, with `arrives`
        after `arrived`. After a power failure the queue manager may have to be asked again.
        """
        state = _SENT if not clear else _TO_ARRIVE if arrives else _TO_CLEAR
        with self._writing():
            for transaction_id, committed in outcomes:
                if committed:
                    self._database.execute(
                        "INSERT OR REPLACE INTO files"
                        " SELECT path, size, mtime_ns, inode, ?, message FROM pending"
                        " WHERE transaction_id = ?",
                        (state, transaction_id),
                    )
                self._database.execute(
                    "DELETE FROM pending WHERE transaction_id = ?", (transaction_id,)
                )

    def arrived(self, files: Iterable[FoundFile]) -> None:
        """Note that these have arrived, so that those that are to go may go."""
        rows = [(_TO_CLEAR, os.fsencode(each.path), _TO_ARRIVE) for each in files]
        with self._writing(synced=True):
            self._database.execute_many(
                "UPDATE files SET state = ? WHERE path = ? AND state = ?", rows
            )

    def awaits(self) -> bool:
        """Whether a file waits until it has arrived."""
        return bool(
            self._database.execute("SELECT 1 FROM files WHERE state = 2 LIMIT 1").fetchone()
        )

    def note_arrivals(self, arrived: Iterable[str], refused: Iterable[str]) -> dict[str, str]:
        """Note, durably, which messages have arrived; files of those may go.

        The files of refused ones stay in their folder; their paths are returned by the ids. Ids of
        other messages are ignored.
        """
        stay: dict[str, str] = {}
        with self._writing(synced=True):
            rows = [(_TO_CLEAR, each, _TO_ARRIVE) for each in arrived]
            self._database.execute_many(
                "UPDATE files SET state = ? WHERE message = ? AND state = ?", rows
            )
            for each in refused:
                found = self._database.execute(
                    "SELECT path FROM files WHERE message = ? AND state = 2", (each,)
                ).fetchone()
                if found is not None:
                    stay[each] = os.fsdecode(found[0])
            self._database.execute_many(
                "UPDATE files SET state = 0 WHERE path = ?",
                [(os.fsencode(path),) for path in stay.values()],
            )
        return stay

    def to_clear(self) -> list[FoundFile]:
        """The files that were sent and are still to be removed from their folder."""
        rows = self._database.execute(
            "SELECT path, size, mtime_ns, inode FROM files WHERE state = 1 ORDER BY path"
        )
        return [FoundFile(os.fsdecode(path), *rest) for path, *rest in rows]

    def cleared(self, files: Iterable[FoundFile], *, gone: bool) -> None:
        """Note that files need no clearing any more: they are `gone`, or were changed meanwhile."""
        rows = [(os.fsencode(each.path),) for each in files]
        with self._writing():
            if gone:
                self._database.execute_many("DELETE FROM files WHERE path = ?", rows)
            else:
                self._database.execute_many("UPDATE files SET state = 0 WHERE path = ?", rows)

    def stay(self, files: Iterable[FoundFile]) -> None:
        """Note that files could not be removed: `to_clear` leaves them out until `try_again`."""
        rows = [(_STAYS, os.fsencode(each.path)) for each in files]
        with self._writing():
            self._database.execute_many("UPDATE files SET state = ? WHERE path = ?", rows)

    def try_again(self) -> None:
        """Give the files that could not be removed to `to_clear` again."""
        with self._writing():
            self._database.execute("UPDATE files SET state = 1 WHERE state = 3")

    @contextmanager
    def _writing(self, *, synced: bool = False) -> Iterator[None]:
        """A block of `LedgerDatabase.writing`; raises `TargetUnwritable` if the disk fails."""
        try:
            with self._database.writing(synced=synced):
                yield
        except sqlite3.Error as error:
            raise TargetUnwritable(
                f"the ledger {self._file} cannot be written: {error}; free room on its disk or mend"
                " it, and go on with the same ledger, which knows the files that were sent",
                path=str(self._file),
                retryable=isinstance(error, sqlite3.OperationalError),
            ) from error
