"""The table of a landing as a Delta table: one version a commit, none of them twice."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from dray.errors import DrayError, InvalidConfiguration, StoreCorrupt, StoreLocked
from dray.spark import audit, compact
from dray.spark.auditing.sources import _files_of
from dray.spark.landing.delta import DeltaLandedTable, files_of
from dray.spark.landing.landing import Landing, land
from dray.spark.landing.table import LandedTable, Reached
from tests.spark.local_queue import LocalPuller, LocalQueue, LocalSettler
from tests.spark.test_table import REACHED, rows


@pytest.fixture(scope="module", autouse=True)
def threads_of_delta(tmp_path_factory):
    """Delta starts threads when it is first used, which stay."""
    write_deltalake(str(tmp_path_factory.mktemp("first")), rows("m\\1"))


def test_rows_and_progress_are_there_after_opening_again(tmp_path):
    DeltaLandedTable(tmp_path).commit(rows("m\\1", "m\\2"), REACHED)

    again = DeltaLandedTable(tmp_path)

    assert again.reached == Reached(REACHED.queues, 1, {"m": ((1, 2),)})
    assert again.already_landed(pa.array(["m\\2", "m\\4"])) == [True, False]
    assert again.read()["sequence_id"].to_pylist() == ["m\\1", "m\\2"]
    again.commit(rows("m\\3"), REACHED)
    assert again.already_landed(pa.chunked_array([["m\\3"]])) == [True]
    assert DeltaTable(str(tmp_path)).version() == 1


def test_two_writers_cannot_make_the_same_commit(tmp_path):
    one, two, three = (DeltaLandedTable(tmp_path) for _ in range(3))
    one.commit(rows("m\\1"), Reached())
    with pytest.raises(StoreLocked):
        two.commit(rows("m\\1"), Reached())
    late = DeltaLandedTable(tmp_path)
    DeltaLandedTable(tmp_path).commit(rows("m\\2"), Reached())

    for stale in (late, three):
        with pytest.raises(StoreLocked, match="only one at a time"):
            stale.commit(rows("m\\2"), Reached())

    assert DeltaLandedTable(tmp_path).read().num_rows == 2


def test_delta_accepts_a_version_of_an_application_twice_and_the_landing_does_not(tmp_path):
    table = DeltaLandedTable(tmp_path)
    table.commit(rows("m\\1"), Reached())
    # Another program, with the same application version: Delta says nothing.
    again = CommitProperties(app_transactions=[Transaction("dray.landing", 2)])
    write_deltalake(str(tmp_path), rows("m\\2"), mode="append", commit_properties=again)
    write_deltalake(str(tmp_path), rows("m\\3"), mode="append", commit_properties=again)

    with pytest.raises(StoreLocked):
        table.commit(rows("m\\4"), Reached())
    with pytest.raises(StoreCorrupt, match="no longer says how far"):
        DeltaLandedTable(tmp_path)


def test_a_commit_that_a_power_failure_left_empty_is_none(tmp_path):
    DeltaLandedTable(tmp_path).commit(rows("m\\1"), REACHED)
    DeltaLandedTable(tmp_path).commit(rows("m\\2"), REACHED)
    (tmp_path / "_delta_log" / f"{1:020}.json").write_bytes(b"")

    again = DeltaLandedTable(tmp_path)

    assert again.reached.commits == 1
    assert again.already_landed(pa.array(["m\\1", "m\\2"])) == [True, False]
    again.commit(rows("m\\2"), REACHED)
    assert DeltaLandedTable(tmp_path).already_landed(pa.array(["m\\1", "m\\2"])) == [True, True]


def test_commits_of_other_programs_are_no_hindrance(tmp_path):
    DeltaLandedTable(tmp_path).commit(rows("m\\1"), REACHED)
    DeltaTable(str(tmp_path)).optimize.compact()
    write_deltalake(str(tmp_path), rows("m\\9"), mode="append")

    again = DeltaLandedTable(tmp_path)

    assert again.reached == Reached(REACHED.queues, 1, {"m": ((1, 1),)})
    again.commit(rows("m\\2"), REACHED)
    assert DeltaLandedTable(tmp_path).read().num_rows == 3


def test_a_delta_table_with_other_columns_is_refused_before_anything_is_written(tmp_path):
    write_deltalake(str(tmp_path), pa.table({"sequence_id": ["m\\1"], "price": [1]}))

    with pytest.raises(InvalidConfiguration, match="of another kind: it has no column 'manager'"):
        DeltaLandedTable(tmp_path)

    assert DeltaTable(str(tmp_path)).version() == 0


def test_one_directory_has_one_kind_of_table(tmp_path):
    DeltaLandedTable(tmp_path / "delta").commit(rows("m\\1"), REACHED)
    LandedTable(tmp_path / "parquet").commit(rows("m\\1"), REACHED)

    with pytest.raises(InvalidConfiguration, match="is a Delta table"):
        LandedTable(tmp_path / "delta")
    with pytest.raises(InvalidConfiguration, match="table='parquet'"):
        DeltaLandedTable(tmp_path / "parquet")
    with pytest.raises(InvalidConfiguration, match="table is 'csv'; it can be parquet or delta"):
        land("dray://127.0.0.1:1", "q", tmp_path, table="csv")


@pytest.mark.parametrize("name", ["with space", "übergabe", "a{b}", "a%b"])
def test_the_rows_of_a_table_in_a_directory_of_any_usable_name_are_found_again(tmp_path, name):
    table = tmp_path / name / "table"
    for number in range(1, 4):
        DeltaLandedTable(table).commit(rows(f"m\\{number}"), REACHED)

    # A landing that begins again looks into the files.
    again = DeltaLandedTable(table)
    assert again.already_landed(pa.array(["m\\1", "m\\3"])) == [True, True]
    assert compact(table.parent).files_after == 1
    assert again.already_landed(pa.array(["m\\2", "m\\4"])) == [True, False]
    assert _files_of(table) == [str(path) for path in files_of(table)]
    assert all(path.is_file() for path in files_of(table))


@pytest.mark.parametrize(
    "name", ["a#b", "a?b", "a[b", "a]b", "a\\b", "a^b", "a|b", "a%20b", "a\nb"]
)
def test_a_directory_whose_name_deltalake_cannot_use_is_refused_before_anything_is_written(
    tmp_path, name
):
    table = tmp_path / name / "table"
    with pytest.raises(InvalidConfiguration, match=r"deltalake cannot use the path .* parquet"):
        DeltaLandedTable(table)
    assert not table.exists()

    DeltaLandedTable(tmp_path / "usable").commit(rows("m\\1"), REACHED)
    table.parent.mkdir()
    (tmp_path / "usable").rename(table)
    with pytest.raises(InvalidConfiguration, match="deltalake cannot use"):
        compact(table.parent)


class Killed(Exception):  # noqa: N818 - it stands for a kill
    """Raised in the place of a crash."""


class DyingSettler(LocalSettler):
    """Dies before it settles, once."""

    dies = True

    def settle(self, *given):
        if self.dies:
            self.dies = False
            raise Killed
        return super().settle(*given)


@pytest.mark.spark
@pytest.mark.slow
def test_a_landing_into_a_delta_table_lands_each_message_once(spark, tmp_path):
    queue, out = LocalQueue(tmp_path / "queue"), tmp_path / "out"
    for number in range(6):
        queue.add(b"x" * (5_000 + number), f"{number}")
    settler = DyingSettler()

    def run():
        reader = spark.readStream.format("localqueue").option("directory", str(queue.directory))
        rows = reader.option("atOnce", "2").load()
        return Landing(out, LocalPuller(), settler, table="delta").run(rows)

    with pytest.raises(DrayError, match="Killed"):
        run()
    assert (queue.settled, DeltaTable(str(out / "table")).version()) == (0, 0)
    summary = run()

    assert (summary.files, summary.replayed) == (4, 2)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]
    landed = DeltaTable(str(out / "table")).to_pyarrow_table().to_pylist()
    assert sorted(row["sequence_id"] for row in landed) == sorted(
        row["sequence_id"] for row in queue.rows
    )
    commits = DeltaTable(str(out / "table")).history()
    assert [json.loads(each["dray.landing"])["commits"] for each in commits] == [3, 2, 1]
    report = audit(out, session=spark)
    assert (report.messages, report.clean) == (6, True)
