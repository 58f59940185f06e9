"""The table of what was landed: Parquet files that are each one commit, numbered without a gap.

    table/landed-000000000001.parquet     rows of one commit; in its footer, how far it has come
    table/landed-000000000002.parquet

A file is written beside its place, synced, and linked to the next number, which fails if that
number is taken. So a commit is there whole or not at all, rows and progress together, and two
writers cannot both make the same one. Any Parquet reader may read the directory at any time.

Sequence ids decide what has been landed, never Spark's batch ids: a checkpoint that lost its last
entry plans a batch of the same number over another range, and skipping it would lose messages.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dray.errors import InvalidConfiguration, StoreCorrupt, StoreLocked
from dray.fsync import sync_folder
from dray.spark.landing.payload import PARTIAL_SUFFIX, remove_partials
from dray.spark.positions import LandingProgress
from dray.spark.schema import LANDED

_FOOTER_KEY = b"dray.landing"
COMMITS = "landed-*.parquet"
"""The names of commits."""


class TransactionReached(NamedTuple):
    """The transaction of the last message landed, and that message's position in it (from 1).

    `size` is how many large messages it sent to the queue, 0 if that is not known.
    """

    transaction_id: str = ""
    position: int = 0
    size: int = 0


class QueueReached(NamedTuple):
    """How far landing has come in one queue.

    `holed` are sequence ids that the table has as holes and whose other parts may still be there.
    `transactions` has the last one of each source that is not complete.
    `born` is the birth number of the queue: the rest tells of this birth alone.
    """

    progress: LandingProgress = LandingProgress()
    holed: tuple[str, ...] = ()
    transactions: tuple[TransactionReached, ...] = ()
    born: int = 0


class Reached(msgspec.Struct, frozen=True):
    """How far landing has come: `queues` by manager id and queue name."""

    queues: dict[str, dict[str, QueueReached]] = {}
    commits: int = 0

    def queue(self, manager_id: str, queue: str) -> QueueReached:
        """How far it has come in one queue."""
        return self.queues.get(manager_id, {}).get(queue, QueueReached())

    def birth(self, manager_id: str, queue: str, born: int) -> QueueReached:
        """How far it has come in one birth of a queue; nowhere, if it knows another birth."""
        reached = self.queue(manager_id, queue)
        return reached if reached.born == born else QueueReached(born=born)

    def with_queue(self, manager_id: str, queue: str, reached: QueueReached) -> Reached:
        """The same, with one queue further on."""
        queues = {**self.queues, manager_id: {**self.queues.get(manager_id, {}), queue: reached}}
        return Reached(queues, self.commits)


class LandedTable:
    """The one writer of a table, and what it has to remember of it."""

    def __init__(self, directory: Path) -> None:
        """Open the table in `directory`, made if need be; raises `StoreError`, `StoreCorrupt`."""
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / "_delta_log").exists():
            raise InvalidConfiguration(
                f"{directory} is a Delta table; land with table='delta' (--table delta), or into"
                " another directory"
            )
        remove_partials(directory)
        self.directory = directory
        paths = sorted(directory.glob(COMMITS))
        self.reached = _read_footer(paths[-1]) if paths else Reached()
        self._known = _read_ids(paths)

    def already_landed(self, sequence_ids: pa.Array) -> list[bool]:
        """For each sequence id, whether its row is in the table."""
        return pc.is_in(sequence_ids, value_set=self._known).to_pylist()

    def commit(self, rows: pa.Table, reached: Reached) -> Path:
        """Add rows and progress, durably; raises `StoreLocked` if somebody else writes here too."""
        number = self.reached.commits + 1
        reached = Reached(reached.queues, number)
        path = self.directory / f"landed-{number:012}.parquet"
        partial = self.directory / f".{path.name}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}"
        footer = {_FOOTER_KEY: msgspec.json.encode(reached)}
        try:
            with partial.open("xb") as file:
                pq.write_table(rows.cast(LANDED).replace_schema_metadata(footer), file)
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(partial)
        except FileExistsError as error:
            raise StoreLocked(
                f"another landing has written {path}; let only one at a time land into a directory"
            ) from error
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(self.directory)
        self.reached = reached
        self._known = pa.chunked_array([*self._known.chunks, *rows["sequence_id"].chunks])
        return path

    def settled(self, reached: Reached) -> None:
        """Remember what was settled; the next commit makes that durable, too."""
        self.reached = Reached(reached.queues, self.reached.commits)

    def read(self) -> pa.Table:
        """All rows."""
        paths = sorted(self.directory.glob(COMMITS))
        return ds.dataset([str(path) for path in paths], schema=LANDED).to_table()


def _read_footer(path: Path) -> Reached:
    try:
        metadata = pq.read_schema(path).metadata or {}
        return msgspec.json.decode(metadata[_FOOTER_KEY], type=Reached)
    except (pa.ArrowException, KeyError, msgspec.MsgspecError) as error:
        raise StoreCorrupt(
            f"{path} is no commit of a landing: {error}; move it away if it is not Dray's,"
            " else restore it",
            event=0,
            file=str(path),
        ) from error


def _read_ids(paths: list[Path]) -> pa.ChunkedArray:
    if not paths:
        return pa.chunked_array([], type=pa.string())
    dataset = ds.dataset([str(path) for path in paths], schema=LANDED)
    return dataset.to_table(columns=["sequence_id"])["sequence_id"]
