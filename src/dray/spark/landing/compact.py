"""`dray.spark.compact`: joins the small files of a landed table into large ones.

    1  small files that follow each other -> one file of the next generation, synced
    2  the other files are linked into it; it takes the place of the generation before

Readers see the table before or after step 2. A landing may work meanwhile: it waits with a commit
only during step 2. A crash leaves one generation or the other whole, and the next run removes
the rest. A Delta table is joined by its own `optimize`, which is one commit of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dray.client.calls.public_calls import checked
from dray.errors import InvalidConfiguration
from dray.model.limits import MIB
from dray.model.words import size_in_bytes
from dray.spark.failure import disk_told
from dray.spark.landing.generations import (
    begin_generation,
    commits_locked,
    publish,
    working_alone,
)
from dray.spark.landing.table import (
    FOOTER_KEY,
    PREFIX,
    SUFFIX,
    commits_in,
    numbers_of,
    read_footer,
    write_durably,
)
from dray.spark.schema import LANDED

FILE_SIZE = "256MiB"
"""Size of a joined file: few enough files, and each is written again once or twice at most."""
_BYTES_OF_A_GROUP = 32 * MIB
"""Rows that are gathered in memory before they are written as one row group."""
_ROWS_AT_ONCE = 1_024


class CompactionSummary(msgspec.Struct, kw_only=True, frozen=True):
    """Files and bytes of a table before and after a compaction. Its rows stay the same."""

    table_directory: Path
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


@checked
def compact(out: str | Path, *, file_size: int | str = FILE_SIZE) -> CompactionSummary:
    """Join the small files of the table below `out`, the directory that was landed into.

    Files smaller than half of `file_size` are joined up to that size; the order of rows stays. A
    landing and readers may work meanwhile. The files from before stay until the next compaction,
    for readers that have begun; those of a Delta table until its `vacuum` removes them.

    Raises `InvalidConfiguration` if there is no table, `StoreLocked` while another compaction
    works there, `StoreFull` or `StoreError` for its disk, `StoreCorrupt` for a damaged file.
    """
    table = Path(out).absolute() / "table"
    is_delta = (table / "_delta_log").exists()
    if not is_delta and not commits_in(table):
        raise InvalidConfiguration(
            f"{out} has no table of a landing; name the directory that a landing wrote into"
        )
    size = size_in_bytes(file_size)
    refusal = f"another compaction works in {table.parent}; wait for it"
    with disk_told(table), working_alone(table, "compact.lock", refusal):
        before = _files_of(table, is_delta=is_delta)
        bytes_before = sum(path.stat().st_size for path in before)
        if is_delta:
            from dray.spark.landing.delta import optimize

            optimize(table, size)
        else:
            _join_files(table, size)
        after = _files_of(table, is_delta=is_delta)
        return CompactionSummary(
            table_directory=table,
            files_before=len(before),
            files_after=len(after),
            bytes_before=bytes_before,
            bytes_after=sum(path.stat().st_size for path in after),
        )


def _files_of(table: Path, *, is_delta: bool) -> list[Path]:
    if is_delta:
        from dray.spark.landing.delta import files_of

        return files_of(table)
    return commits_in(table)


def _join_files(table: Path, size: int) -> None:
    old = commits_in(table)
    runs = list(_runs(old, size))
    if not runs:
        return
    begun = begin_generation(table)
    for run in runs:
        first, last = numbers_of(run[0])[0], numbers_of(run[-1])[1]
        name = f"{PREFIX}{first:012}-{last:012}{SUFFIX}"
        write_durably(begun / name, lambda file, run=run: _join(run, file))  # type: ignore[misc]
    joined = {path for run in runs for path in run}
    with commits_locked(table):
        # A landing may have made commits since.
        for path in commits_in(table):
            if path not in joined:
                (begun / path.name).hardlink_to(path)
        publish(table, begun)


def _runs(paths: list[Path], size: int) -> Iterator[list[Path]]:
    """Files that follow each other and are to be one: at least two of them, together not larger."""
    run: list[Path] = []
    held = 0
    for path in paths:
        here = path.stat().st_size
        if here >= size / 2 or held + here > size:
            if len(run) > 1:
                yield run
            run, held = [], 0
        if here < size / 2:
            run.append(path)
            held += here
    if len(run) > 1:
        yield run


def _join(paths: list[Path], file: BinaryIO) -> None:
    """Write the rows of all files; the progress is that of the last one."""
    footer = {FOOTER_KEY: msgspec.json.encode(read_footer(paths[-1]))}
    with pq.ParquetWriter(file, LANDED.with_metadata(footer)) as writer:
        for group in _groups(paths):
            writer.write_table(group.replace_schema_metadata(footer))


def _groups(paths: list[Path]) -> Iterator[pa.Table]:
    """The rows of all files, in portions that fit in memory."""
    batches: list[pa.RecordBatch] = []
    held = 0
    for path in paths:
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                batches.append(batch)
                held += batch.nbytes
                if held >= _BYTES_OF_A_GROUP:
                    yield pa.Table.from_batches(batches).cast(LANDED)
                    batches, held = [], 0
    if batches:
        yield pa.Table.from_batches(batches).cast(LANDED)
