"""The table of what was landed as a Delta table, for readers that know Delta.

    table/_delta_log/00000000000000000000.json   a commit: its files, how far landing has come
    table/part-00000-....parquet                 its rows

A commit of Delta is there whole or not at all, and no two writers make the same one. It carries the
number of the landing's commit as the version of the application `dray.landing`, and as metadata of
its own what the footer of a Parquet commit has. Delta accepts a commit with an application version
that it has already, so that version is read before each commit.

Delta does not sync what it writes. A commit counts when its files are synced here; one that a power
failure has left empty is no commit, and its messages are still in the queue.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from dray.errors import InvalidConfiguration, StoreCorrupt, StoreLocked
from dray.fsync import sync_folder
from dray.spark.landing.generations import commits_locked
from dray.spark.landing.landed_ids import Content, LandedIds, with_ids
from dray.spark.landing.table import COMMITS, Reached
from dray.spark.schema import LANDED

if TYPE_CHECKING:
    from deltalake import DeltaTable

_APPLICATION = "dray.landing"
_UNUSABLE = re.compile(r"[#?\[\]\\^|\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""In a path that deltalake makes a URL of. It panics, or later finds no history of the table."""


class DeltaLandedTable:
    """The one writer of a Delta table, and what it has to remember of it; as `LandedTable`."""

    def __init__(self, directory: Path) -> None:
        """Open the table in `directory`, made if need be; raises `StoreError`, `StoreCorrupt`.

        Raises `InvalidConfiguration` where `deltalake` is not installed or cannot use the path, or
        another kind of table is there.
        """
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise InvalidConfiguration(
                "deltalake is not installed; `pip install 'dray[delta]'` brings it"
            ) from error
        _check_path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.glob(COMMITS)):
            raise InvalidConfiguration(
                f"{directory} is a table of Parquet commits; land with table='parquet', or into"
                " another directory"
            )
        self.directory = directory
        self._table: DeltaTable | None = None
        self.reached = Reached()
        if DeltaTable.is_deltatable(str(directory)):
            self._table = DeltaTable(str(directory))
            self._check_columns()
            self.reached = self._read_reached()
        self._ids = LandedIds(self._files)

    def already_landed(self, sequence_ids: pa.Array | pa.ChunkedArray) -> list[bool]:
        """For each sequence id, whether its row is in the table."""
        return self._ids.have(self.reached.ids, sequence_ids)

    def contents(self, sequence_ids: Collection[str]) -> dict[str, Content]:
        """The contents that landed under some sequence ids, where they were whole."""
        return self._ids.contents(sequence_ids)

    def commit(self, rows: pa.Table, reached: Reached) -> None:
        """Add rows and progress, durably; raises `StoreLocked` if somebody else writes here too."""
        with commits_locked(self.directory):
            self._commit(rows, reached)

    def _commit(self, rows: pa.Table, reached: Reached) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import DeltaError

        number = self.reached.commits + 1
        ids = with_ids(self.reached.ids, rows["sequence_id"])
        reached = replace(reached, commits=number, ids=ids)
        if self._table is not None:
            self._table.update_incremental()
            if (self._table.transaction_version(_APPLICATION) or 0) >= number:
                raise self._locked()
        properties = CommitProperties(
            custom_metadata={_APPLICATION: msgspec.json.encode(reached).decode()},
            max_commit_retries=0,
            app_transactions=[Transaction(_APPLICATION, number)],
        )
        table = rows.cast(LANDED).replace_schema_metadata(None)
        try:
            if self._table is None:
                write_deltalake(
                    str(self.directory), table, mode="error", commit_properties=properties
                )
            else:
                write_deltalake(self._table, table, mode="append", commit_properties=properties)
        except DeltaError as error:
            raise self._locked() from error
        self._sync()
        self.reached = reached

    def settled(self, reached: Reached) -> None:
        """Remember what was settled; the next commit makes that durable, too."""
        self.reached = replace(self.reached, queues=reached.queues)

    def read(self) -> pa.Table:
        """All rows."""
        if self._table is None:
            return LANDED.empty_table()
        return self._table.to_pyarrow_table().select(LANDED.names).cast(LANDED)

    def _files(self) -> list[Path]:
        """The files of the newest version; those of an older one may have been removed."""
        if self._table is None:
            return []
        self._table.update_incremental()
        return _paths_of(self._table)

    def _check_columns(self) -> None:
        assert self._table is not None
        there = {field.name for field in self._table.schema().fields}
        missing = [name for name in LANDED.names if name not in there]
        if missing:
            raise InvalidConfiguration(
                f"{self.directory} is a table of another kind: it has no column {missing[0]!r};"
                " land into another directory"
            )

    def _read_reached(self) -> Reached:
        """The end of the last commit of a landing; other programs may have written since."""
        assert self._table is not None
        number = self._table.transaction_version(_APPLICATION)
        if number is None:
            return Reached()
        for commit in self._table.history():
            if _APPLICATION in commit:
                reached = msgspec.json.decode(commit[_APPLICATION], type=Reached)
                if reached.commits == number:
                    return reached
        raise StoreCorrupt(
            f"{self.directory} has commits of a landing, and its log no longer says how far the"
            " last one had come; land into another directory, and keep the log for longer there",
            event=0,
            file=str(self.directory),
        )

    def _sync(self) -> None:
        from deltalake import DeltaTable

        self._table = DeltaTable(str(self.directory))
        _sync_newest(self._table, self.directory)

    def _locked(self) -> StoreLocked:
        return StoreLocked(
            f"another program has committed to {self.directory}; let only one at a time land into a"
            " directory"
        )


def optimize(directory: Path, file_size: int) -> None:
    """Join the small files of a Delta table, durably; commits of a landing wait meanwhile."""
    from deltalake import DeltaTable

    _check_path(directory)
    with commits_locked(directory):
        table = DeltaTable(str(directory))
        before = table.version()
        table.optimize.compact(target_size=file_size)
        if table.version() != before:
            _sync_newest(table, directory)


def files_of(directory: Path) -> list[Path]:
    """The files of the newest version of a Delta table."""
    from deltalake import DeltaTable

    _check_path(directory)
    return _paths_of(DeltaTable(str(directory)))


def _paths_of(table: DeltaTable) -> list[Path]:
    return [Path(unquote(uri.removeprefix("file://"))) for uri in table.file_uris()]


def _check_path(directory: Path) -> None:
    unusable = _UNUSABLE.search(str(directory.resolve()))
    if unusable is not None:
        raise InvalidConfiguration(
            f"deltalake cannot use the path {str(directory)!r}, because of {unusable[0]!r} in it;"
            " choose another directory, or land with table='parquet' (--table parquet)"
        )


def _sync_newest(table: DeltaTable, directory: Path) -> None:
    """Sync the newest commit: its files, its entry in the log, and their names."""
    log = directory / "_delta_log"
    entry = log / f"{table.version():020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    added = [directory / each["add"]["path"] for each in actions if "add" in each]
    for path in [*added, entry]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(directory)
    sync_folder(log)
