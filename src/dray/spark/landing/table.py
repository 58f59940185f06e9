"""The table of what was landed: Parquet files that are commits, numbered without a gap.

    table/landed-000000000001-000000000008.parquet   eight commits that a compaction has joined
    table/landed-000000000009.parquet                rows of one commit; in its footer, how far
                                                     landing has come

A file is written beside its place, synced, and linked to the next number, which fails if that
number is taken. So a commit is there whole or not at all, rows and progress together, and two
writers cannot both make the same one. Any Parquet reader may read the directory at any time.
`table` is a link (`generations.py`), so that a compaction can replace many files at once.

Sequence ids decide what has been landed, never Spark's batch ids: a checkpoint that lost its last
entry plans a batch of the same number over another range, and skipping it would lose messages.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from dray.errors import InvalidConfiguration, StoreCorrupt, StoreLocked
from dray.fsync import sync_folder
from dray.spark.landing.generations import commits_locked, make_table
from dray.spark.landing.landed_ids import Content, Cover, LandedIds, with_ids
from dray.spark.landing.payload import PARTIAL_SUFFIX, remove_partials
from dray.spark.positions import LandingProgress, Range
from dray.spark.schema import LANDED
from dray.spark.source.planned import PlannedSpan

FOOTER_KEY = b"dray.landing"
PREFIX, SUFFIX = "landed-", ".parquet"
COMMITS = f"{PREFIX}*{SUFFIX}"
"""The names of commits."""
_NAME = re.compile(rf"{PREFIX}(\d{{12}})(?:-(\d{{12}}))?\{SUFFIX}")


class TransactionReached(NamedTuple):
    """The transaction of the last message landed, and that message's position in it (from 1).

    `size` is how many large messages it sent to the queue, 0 if that is not known.
    """

    transaction_id: str = ""
    position: int = 0
    size: int = 0


class QueueReached(NamedTuple):
    """The end of a landing in one queue.

    `progress` is that of large messages, and `small` has the ranges of positions in which every
    small message is landed: one range for all, whatever large messages lie between.
    `holed` are sequence ids that the table has as holes and whose other parts may still be there.
    `transactions` has the last one of each source that is not complete.
    `born` is the birth number of the queue: the rest tells of this birth alone. `receipt` is what
    the queue manager gave when it was last planned: settling states it.
    """

    progress: LandingProgress = LandingProgress()
    holed: tuple[str, ...] = ()
    transactions: tuple[TransactionReached, ...] = ()
    born: int = 0
    receipt: bytes = b""
    small: tuple[Range, ...] = ()


class Reached(msgspec.Struct, frozen=True):
    """The ends of a landing: `queues` by manager id and queue name, `ids` by source."""

    queues: dict[str, dict[str, QueueReached]] = {}
    commits: int = 0
    ids: Cover = {}

    def queue(self, manager_id: str, queue: str) -> QueueReached:
        """Its end in one queue."""
        return self.queues.get(manager_id, {}).get(queue, QueueReached())

    def birth(self, manager_id: str, queue: str, born: int) -> QueueReached:
        """Its end in one birth of a queue; nowhere, if it knows another birth."""
        reached = self.queue(manager_id, queue)
        return reached if reached.born == born else QueueReached(born=born)

    def with_queue(self, manager_id: str, queue: str, reached: QueueReached) -> Reached:
        """The same, with one queue further on."""
        queues = {**self.queues, manager_id: {**self.queues.get(manager_id, {}), queue: reached}}
        return replace(self, queues=queues)

    def with_receipts(self, planned: Iterable[PlannedSpan]) -> Reached:
        """The same, with the receipts of a micro-batch."""
        further = self
        for (manager_id, queue, born, *_), receipt in planned:
            before = further.queue(manager_id, queue)
            if before.born == born:
                further = further.with_queue(manager_id, queue, before._replace(receipt=receipt))
        return further


class LandedTable:
    """The one writer of a table, and what it has to remember of it."""

    def __init__(self, directory: Path) -> None:
        """Open the table in `directory`, made if need be; raises `StoreError`, `StoreCorrupt`."""
        make_table(directory)
        if (directory / "_delta_log").exists():
            raise InvalidConfiguration(
                f"{directory} is a Delta table; land with table='delta' (--table delta), or into"
                " another directory"
            )
        foreign = [path for path in directory.glob(f"*{SUFFIX}") if not _NAME.fullmatch(path.name)]
        if foreign:
            raise InvalidConfiguration(
                f"{directory} is a table of another kind: {foreign[0].name} is no commit of a"
                " landing; move it away, or land into another directory"
            )
        remove_partials(directory)
        self.directory = directory
        paths = commits_in(directory)
        _check_each_once(paths)
        self.reached = read_footer(paths[-1]) if paths else Reached()
        self._ids = LandedIds(lambda: commits_in(directory))

    def already_landed(self, sequence_ids: pa.Array | pa.ChunkedArray) -> list[bool]:
        """For each sequence id, whether its row is in the table."""
        return self._ids.have(self.reached.ids, sequence_ids)

    def contents(self, sequence_ids: Collection[str]) -> dict[str, Content]:
        """The contents that landed under some sequence ids, where they were whole."""
        return self._ids.contents(sequence_ids)

    def commit(self, rows: pa.Table, reached: Reached) -> Path:
        """Add rows and progress, durably; raises `StoreLocked` if somebody else writes here too."""
        number = self.reached.commits + 1
        ids = with_ids(self.reached.ids, rows["sequence_id"])
        reached = replace(reached, commits=number, ids=ids)
        with commits_locked(self.directory):
            paths = commits_in(self.directory)
            if (numbers_of(paths[-1])[1] if paths else 0) >= number:
                raise _locked(self.directory)
            path = self.directory.resolve() / f"{PREFIX}{number:012}{SUFFIX}"
            footer = {FOOTER_KEY: msgspec.json.encode(reached)}
            write_durably(path, lambda file: _write(rows, footer, file))
        self.reached = reached
        return path

    def settled(self, reached: Reached) -> None:
        """Remember what was settled; the next commit makes that durable, too."""
        self.reached = replace(self.reached, queues=reached.queues)

    def read(self) -> pa.Table:
        """All rows."""
        # It imports pandas, which the many small processes of Spark do not need.
        import pyarrow.dataset as ds

        return ds.dataset([str(path) for path in commits_in(self.directory)], LANDED).to_table()


def commits_in(directory: Path) -> list[Path]:
    """The files of a table in the order of their commits, in the generation of this moment."""
    while True:
        generation = directory.resolve()
        found = sorted(generation.glob(COMMITS))
        # Two compactions remove the files of a generation that has not been listed to its end.
        if directory.resolve() == generation:
            return found


def _check_each_once(paths: list[Path]) -> None:
    """Raise `StoreCorrupt` if a commit is in two files, or in none between two others.

    The oldest files may have been deleted.
    """
    for before, path in pairwise(paths):
        reached, (first, last) = numbers_of(before)[1], numbers_of(path)
        if first <= reached:
            raise _foreign(path, f"{before.name} has commit {min(last, reached)}, too")
        if first > reached + 1:
            raise StoreCorrupt(
                f"{path.parent} has no file with commit {reached + 1}, between {before.name} and"
                f" {path.name}: its rows are missing; restore the file",
                event=0,
                file=str(path.parent),
            )


def numbers_of(path: Path) -> Range:
    """The first and the last commit that a file holds; raises `StoreCorrupt`."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise _foreign(path, "its name has no number of a commit")
    return int(found[1]), int(found[2] or found[1])


def write_durably(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Make a file with what `write` writes, whole or not at all; raises `StoreLocked`."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}")
    try:
        with partial.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(partial)
    except FileExistsError as error:
        raise _locked(path.parent) from error
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def _write(rows: pa.Table, footer: dict[bytes, bytes], file: BinaryIO) -> None:
    pq.write_table(rows.cast(LANDED).replace_schema_metadata(footer), file)


def _locked(directory: Path) -> StoreLocked:
    return StoreLocked(
        f"another landing has committed to {directory}; let only one at a time land into a"
        " directory"
    )


def read_footer(path: Path) -> Reached:
    """The ends of a landing with a commit; raises `StoreCorrupt`."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        return msgspec.json.decode(metadata[FOOTER_KEY], type=Reached)
    except (pa.ArrowException, KeyError, msgspec.MsgspecError) as error:
        raise _foreign(path, error) from error


def _foreign(path: Path, why: Exception | str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is no commit of a landing: {why}; move it away if it is not Dray's, else restore"
        " it",
        event=0,
        file=str(path),
    )
