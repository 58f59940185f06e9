"""Small messages on their way into the table: executors write them to Arrow files, as columns.

    executor   a range of positions -> pages of the queue manager -> _dray/messages/<chance>.arrow
    driver     the files of a micro-batch -> one commit of the table -> the files are removed

Bodies pass neither through Spark's rows nor through Java. A file that a dead task or driver left is
removed by the next landing: what counts is the commit, and until then the queue has the messages.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dray.errors import StoreError
from dray.model.words import counted
from dray.spark.failure import disk_told
from dray.spark.landing.batch import in_order
from dray.spark.landing.summary import LandingSummary
from dray.spark.landing.table import Reached
from dray.spark.positions import is_within, join_ranges
from dray.spark.schema import LANDED, MESSAGES, spark_arrow

SUFFIX = ".arrow"


def write_range(directory: Path, batches: Iterable[pa.RecordBatch]) -> tuple[str, int, int]:
    """Write the messages of a range to a file; its name, its bytes, and how many there were."""
    path = directory / f"{secrets.token_hex(12)}{SUFFIX}"
    schema = spark_arrow(MESSAGES)
    count = 0
    with disk_told(path), path.open("xb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                count += batch.num_rows
        file.flush()
        return path.name, file.tell(), count


def check_written(path: Path, size: int) -> None:
    """Raise `StoreError` if this machine does not see the file that an executor wrote."""
    there = path.stat().st_size if path.exists() else None
    if there != size:
        found = "no such file" if there is None else f"{there} bytes"
        raise _other_than_written(path, f"{size} bytes", found)


def _read_written(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise _other_than_written(path, "messages", f"a file that is damaged ({error})") from error


def _other_than_written(path: Path, written: str, found: str) -> StoreError:
    return StoreError(
        f"an executor wrote {path}, {written}, and the driver finds {found} there; land into a"
        " directory that the driver and all executors share. Nothing was settled"
    )


def read_ranges(directory: Path, rows: pa.Table) -> pa.Table:
    """The messages of the ranges of a micro-batch, in queue order (`schema.MESSAGES`).

    Raises `StoreError` as `check_written` does.
    """
    tables = [spark_arrow(MESSAGES).empty_table()]
    for row in rows.select(["payload", "size", "fragments_present"]).to_pylist():
        path = directory / row["payload"]
        with disk_told(path):
            check_written(path, row["size"])
            table = _read_written(path)
        if table.num_rows != row["fragments_present"]:
            raise _other_than_written(path, counted(row["fragments_present"]), f"{table.num_rows}")
        tables.append(table)
    return pa.concat_tables(tables)


def remove_ranges(directory: Path) -> None:
    """Remove the files of micro-batches that are over."""
    for path in directory.glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)


def land_rows(
    messages: pa.Table, ranges: pa.Table, landed: list[bool], reached: Reached, *, now: datetime
) -> tuple[pa.Table, Reached]:
    """The rows that are new, for the table, and how far landing has come with all of them.

    `ranges` are those that executors have read: what is not there of them, somebody took.
    """
    new = pa.array(landed, pa.bool_())
    fresh = messages.filter(pc.and_(pc.invert(new), _first_of_each(messages["id"])))
    # A queue that is gone, or another one now, gave nothing.
    for row in ranges.filter(pc.greater(ranges["fragments_present"], 0)).to_pylist():
        manager_id, queue = row["manager_id"], row["queue"]
        before = reached.birth(manager_id, queue, row["queue_born"])
        read = (row["first_lookup_id"], row["last_lookup_id"])
        small = tuple(join_ranges([*before.small, read]))
        reached = reached.with_queue(manager_id, queue, before._replace(small=small))
    return _as_landed(fresh, now), reached


def content_of(messages: pa.Table) -> pa.Table:
    """Small messages as `landed_ids.contents_in` takes them."""
    return pa.table(
        {
            "sequence_id": messages["id"],
            "size": messages["body_size"],
            "digest": pa.nulls(messages.num_rows, pa.string()),
            "body": messages["body"],
        }
    )


def count_again(
    summary: LandingSummary, messages: pa.Table, landed: list[bool], before: Reached
) -> None:
    """Count messages that the table has: again from the same position, or from another one."""
    known = messages.append_column("again", pa.array(landed, pa.bool_())).filter(
        pc.or_(pa.array(landed, pa.bool_()), pc.invert(_first_of_each(messages["id"])))
    )
    for row in known.select(
        ["manager_id", "queue", "queue_born", "lookup_id", "again"]
    ).to_pylist():
        landed_before = before.birth(row["manager_id"], row["queue"], row["queue_born"]).small
        replayed = row["again"] and is_within(landed_before, row["lookup_id"])
        summary.replayed += replayed
        summary.duplicates += not replayed


def in_table_order(large: pa.Table, messages: pa.Table) -> pa.Table:
    """The rows of both kinds in queue order, which is the order of their commits."""
    if not large.num_rows:
        return messages
    if not messages.num_rows:
        return large
    return in_order(pa.concat_tables([large, messages]))


def _first_of_each(ids: pa.ChunkedArray) -> pa.Array:
    """For each id, whether it stands there for the first time."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return pa.repeat(pa.scalar(value=True), len(ids))
    first: dict[str, int] = {}
    told = ids.to_pylist()
    for at, each in enumerate(told):
        first.setdefault(each, at)
    return pa.array([first[each] == at for at, each in enumerate(told)], pa.bool_())


def _as_landed(messages: pa.Table, now: datetime) -> pa.Table:
    """The columns of the table; those of large messages alone are null."""
    count = messages.num_rows
    positions = messages["lookup_id"].to_numpy()
    inner = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * count + 1, 2), pa.int32()), pa.array(np.repeat(positions, 2))
    )
    told = {
        "first_lookup_id": messages["lookup_id"],
        "last_lookup_id": messages["lookup_id"],
        "lookup_ranges": pa.ListArray.from_arrays(
            pa.array(np.arange(count + 1), pa.int32()), inner
        ),
        "sequence_id": messages["id"],
        "size": messages["body_size"],
        "missing": pa.ListArray.from_arrays(
            pa.array(np.zeros(count + 1), pa.int32()), pa.array([], pa.string())
        ),
        "state": pa.repeat("landed", count),
        "landed_time": pa.repeat(pa.scalar(now, LANDED.field("landed_time").type), count),
    }
    columns = []
    for field in LANDED:
        if field.name in told:
            column = told[field.name]
        elif field.name in messages.column_names:
            column = messages[field.name]
        else:
            column = pa.nulls(count, field.type)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=LANDED)
