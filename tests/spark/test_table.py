"""The table of what was landed: each file one commit, whole or not there, never two of a number."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dray.errors import InvalidConfiguration, StoreCorrupt, StoreLocked
from dray.spark import compact
from dray.spark.landing.generations import make_table
from dray.spark.landing.table import (
    LandedTable,
    QueueReached,
    Reached,
    TransactionReached,
    commits_in,
)
from dray.spark.positions import LandingProgress
from dray.spark.schema import LANDED

REACHED = Reached().with_queue(
    "m",
    "q",
    QueueReached(LandingProgress(7, ((9, 12),)), ("m\\3",), (TransactionReached("m\\2", 5, 9),), 3),
)


@pytest.fixture
def directory(tmp_path):
    """An empty table, behind its link."""
    make_table(tmp_path / "table")
    return tmp_path / "table"


def rows(*sequence_ids):
    return pa.Table.from_pylist(
        [{"sequence_id": each, "state": "landed"} for each in sequence_ids], schema=LANDED
    )


def test_rows_and_progress_are_there_after_opening_again(directory):
    LandedTable(directory).commit(rows("m\\1", "m\\2"), REACHED)

    again = LandedTable(directory)

    assert again.reached == Reached(REACHED.queues, 1, {"m": ((1, 2),)})
    assert again.reached.queue("m", "q") == REACHED.queue("m", "q")
    assert again.already_landed(pa.array(["m\\2", "m\\4"])) == [True, False]
    assert again.read()["sequence_id"].to_pylist() == ["m\\1", "m\\2"]


def test_what_a_commit_added_is_known_at_once(directory):
    table = LandedTable(directory)
    assert table.already_landed(pa.chunked_array([["m\\1"]])) == [False]

    table.commit(rows("m\\1"), REACHED)

    assert table.already_landed(pa.chunked_array([["m\\1"]])) == [True]


def test_two_writers_cannot_make_the_same_commit(directory):
    one, two = LandedTable(directory), LandedTable(directory)
    one.commit(rows("m\\1"), Reached())

    with pytest.raises(StoreLocked):
        two.commit(rows("m\\1"), Reached())

    assert LandedTable(directory).read().num_rows == 1
    assert len(list(directory.iterdir())) == 1


def test_what_a_crash_left_half_written_is_no_commit(directory):
    LandedTable(directory).commit(rows("m\\1"), Reached())
    (directory / ".landed-000000000002.parquet.ab.partial").write_bytes(b"half")

    table = LandedTable(directory)

    assert table.reached.commits == 1
    assert len(list(directory.iterdir())) == 1


def test_any_parquet_reader_can_read_it(directory):
    table = LandedTable(directory)
    table.commit(rows("m\\1"), REACHED)
    table.commit(rows("m\\2"), REACHED)

    assert pq.read_table(directory)["sequence_id"].to_pylist() == ["m\\1", "m\\2"]


@pytest.mark.parametrize("content", [b"", b"no parquet"])
def test_a_damaged_commit_is_named(directory, content):
    (directory / "landed-000000000001.parquet").write_bytes(content)

    with pytest.raises(StoreCorrupt) as caught:
        LandedTable(directory)

    assert "landed-000000000001.parquet" in caught.value.file


def test_a_file_that_is_not_ours_is_named(directory):
    pq.write_table(pa.table({"a": [1]}), directory / "landed-000000000001.parquet")

    with pytest.raises(StoreCorrupt):
        LandedTable(directory)


def test_a_table_of_somebody_else_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "table").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table" / "part-0.parquet")

    with pytest.raises(InvalidConfiguration, match=r"another kind: part-0\.parquet is no commit"):
        LandedTable(tmp_path / "table")

    assert [path.name for path in (tmp_path / "table").iterdir()] == ["part-0.parquet"]


def test_a_queue_that_was_made_again_has_landed_nothing():
    assert REACHED.birth("m", "q", 3) == REACHED.queue("m", "q")
    assert REACHED.birth("m", "q", 4) == QueueReached(born=4)


def test_an_empty_table_has_no_rows(directory):
    assert LandedTable(directory).read().num_rows == 0


@pytest.mark.parametrize(
    "name", ["landed-000000000001-copy.parquet", "landed-1.parquet", "part-0.parquet"]
)
def test_a_foreign_file_that_readers_would_read_is_refused(directory, name):
    table = LandedTable(directory)
    table.commit(rows("m\\1"), REACHED)
    table.commit(rows("m\\2"), REACHED)
    shutil.copy(directory / "landed-000000000001.parquet", directory / name)
    (directory / "_SUCCESS").touch()

    with pytest.raises(InvalidConfiguration, match=f"{name} is no commit of a landing; move it"):
        LandedTable(directory)

    (directory / name).unlink()
    assert LandedTable(directory).reached.commits == 2


def test_a_commit_that_is_in_two_files_or_missing_between_two_is_named(directory):
    table = LandedTable(directory)
    for number in range(1, 5):
        table.commit(rows(f"m\\{number}"), REACHED)
    first, second, third, _ = commits_in(directory)

    joined = directory / "landed-000000000001-000000000002.parquet"
    shutil.copy(second, joined)
    with pytest.raises(StoreCorrupt, match=r"-000000000002\.parquet has commit 1, too"):
        LandedTable(directory)
    joined.unlink()

    away = third.rename(directory.parent / "away")
    with pytest.raises(StoreCorrupt, match="no file with commit 3, between"):
        LandedTable(directory)
    away.rename(third)

    # The oldest files may have been deleted.
    first.unlink()
    assert LandedTable(directory).reached.commits == 4


def test_a_list_of_files_is_of_one_generation_though_compactions_remove_it(directory, monkeypatch):
    """Else a message that was landed could be missed, and landed once more."""
    table = LandedTable(directory)
    for number in range(1, 5):
        table.commit(rows(f"m\\{number}"), REACHED)
    listed, compactions = Path.glob, [2]

    def listed_late(path, pattern):
        count, compactions[0] = compactions[0], 0
        for number in range(count):
            compact(directory.parent)
            table.commit(rows(f"n\\{number}"), REACHED)
        return listed(path, pattern)

    monkeypatch.setattr("pathlib.Path.glob", listed_late)
    assert len(commits_in(directory)) == 2
