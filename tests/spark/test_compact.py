"""`dray.spark.compact`: fewer files, the same rows, whoever works meanwhile, whatever crashes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dray.errors import InvalidConfiguration, StoreFull, StoreLocked
from dray.spark import compact
from dray.spark.landing.delta import DeltaLandedTable
from dray.spark.landing.generations import make_table
from dray.spark.landing.table import LandedTable, commits_in
from dray.spark.schema import LANDED
from tests.spark.test_table import REACHED

PROGRAM = Path(__file__).with_name("compact_and_die.py")
STEPS = {"parquet": 26, "delta": 12}
"""More than a compaction has that touch the disk; those of Delta's own optimize are not counted."""
KINDS = {"parquet": LandedTable, "delta": DeltaLandedTable}


@pytest.fixture(scope="module", autouse=True)
def threads_of_delta(tmp_path_factory):
    """Delta starts threads when it is first used, which stay."""
    directory = tmp_path_factory.mktemp("first")
    land_rows(DeltaLandedTable(directory / "table"), 1, 2)
    compact(directory)


def rows(*numbers, size=10):
    return pa.Table.from_pylist(
        [
            {
                "sequence_id": f"m\\{each}",
                "state": "landed",
                "body": bytes([each % 256]) * size,
                "lookup_ranges": [[each, each]],
                "missing": [],
            }
            for each in numbers
        ],
        schema=LANDED,
    )


def land_rows(table, first, last, size=10):
    for number in range(first, last + 1):
        table.commit(rows(number, size=size), REACHED)


def numbers_in(table):
    return [int(each.split("\\")[1]) for each in table["sequence_id"].to_pylist()]


@pytest.fixture
def landed(tmp_path):
    """A directory landed into, with ten commits of one row each."""
    land_rows(LandedTable(tmp_path / "out" / "table"), 1, 10)
    return tmp_path / "out"


def test_small_files_become_one_and_the_rows_stay(landed):
    before = LandedTable(landed / "table").read()

    summary = compact(landed)

    assert (summary.files_before, summary.files_after) == (10, 1)
    assert summary.bytes_after < summary.bytes_before
    (path,) = (landed / "table").iterdir()
    assert path.name == "landed-000000000001-000000000010.parquet"
    again = LandedTable(landed / "table")
    assert again.read() == before
    assert (again.reached.commits, again.reached.queues) == (10, REACHED.queues)
    assert pq.read_table(landed / "table")["sequence_id"].equals(before["sequence_id"])
    # What was landed is known, and what comes later gets the next number.
    assert again.already_landed(pa.array(["m\\1", "m\\10", "m\\11"])) == [True, True, False]
    again.commit(rows(11), REACHED)
    assert [path.name for path in commits_in(landed / "table")][1] == "landed-000000000011.parquet"


def test_nothing_is_written_where_nothing_can_be_joined(landed):
    compact(landed)
    generation = (landed / "table").readlink()

    assert compact(landed).files_after == 1

    assert (landed / "table").readlink() == generation


def test_large_files_are_left_and_their_neighbours_joined(tmp_path):
    table = LandedTable(tmp_path / "table")
    for number, size in enumerate((10, 10, 300_000, 10, 10, 10, 300_000, 10), 1):
        body = os.urandom(size)
        one = rows(number)
        column = one.schema.get_field_index("body")
        table.commit(one.set_column(column, LANDED.field("body"), [[body]]), REACHED)

    compact(tmp_path, file_size="400KiB")

    names = [path.name.removesuffix(".parquet")[-25:] for path in commits_in(tmp_path / "table")]
    assert names == [
        "000000000001-000000000002", "landed-000000000003"[-25:], "000000000004-000000000006",
        "landed-000000000007"[-25:], "landed-000000000008"[-25:],
    ]  # fmt: skip
    assert numbers_in(LandedTable(tmp_path / "table").read()) == list(range(1, 9))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_landing_goes_on_while_its_table_is_compacted(tmp_path, kind):
    table = KINDS[kind](tmp_path / "table")
    land_rows(table, 1, 3)
    done = threading.Event()

    def compact_on_and_on():
        while not done.is_set():
            compact(tmp_path)

    compacting = threading.Thread(target=compact_on_and_on)
    compacting.start()
    try:
        land_rows(table, 4, 30)
    finally:
        done.set()
        compacting.join()
    compact(tmp_path)

    again = KINDS[kind](tmp_path / "table")
    assert sorted(numbers_in(again.read())) == list(range(1, 31))
    assert again.reached.commits == 30
    assert table.already_landed(pa.array(["m\\1", "m\\30", "m\\31"])) == [True, True, False]


@pytest.mark.slow
def test_a_reader_sees_each_row_once_while_the_table_is_compacted(landed):
    table, done, failed = landed / "table", threading.Event(), []

    def read_on_and_on():
        while not done.is_set():
            # The link is followed once, so that all files are of one generation.
            numbers = numbers_in(pq.read_table(os.path.realpath(table)))
            if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < 10:
                failed.append(numbers)

    reading = threading.Thread(target=read_on_and_on)
    reading.start()
    try:
        writer = LandedTable(table)
        for first in range(11, 41, 10):
            land_rows(writer, first, first + 9)
            compact(landed)
    finally:
        done.set()
        reading.join()

    assert failed == []


def test_a_reader_that_has_begun_finds_its_files_until_the_next_compaction(landed):
    begun = Path(os.path.realpath(landed / "table"))

    compact(landed)

    assert numbers_in(pq.read_table(begun)) == list(range(1, 11))
    land_rows(LandedTable(landed / "table"), 11, 12)
    compact(landed)
    assert not begun.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_compaction_that_is_killed_at_any_step_loses_and_doubles_no_row(tmp_path, kind):
    template, copies = tmp_path / "template", tmp_path / "copies"
    land_rows(KINDS[kind](template / "table"), 1, 5)
    compact(template)
    land_rows(KINDS[kind](template / "table"), 6, 9)
    for number in range(STEPS[kind]):
        shutil.copytree(template, copies / f"{number:02}", symlinks=True)

    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(copies)], stdout=subprocess.PIPE, text=True, check=True
    )

    statuses = [int(each) for each in ended.stdout.split()]
    # It was killed at each step that it has, and ended well where it has no such step.
    assert statuses.count(-signal.SIGKILL) >= (8 if kind == "parquet" else 1)
    assert set(statuses) == {0, -signal.SIGKILL}
    for copy in sorted(copies.iterdir()):
        assert sorted(numbers_in(KINDS[kind](copy / "table").read())) == list(range(1, 10))
        land_rows(KINDS[kind](copy / "table"), 10, 10)
        assert compact(copy).files_after == 1
        assert sorted(numbers_in(KINDS[kind](copy / "table").read())) == list(range(1, 11))
        left = sorted(path.name for path in (copy / "_dray").iterdir())
        assert [name for name in left if not name.startswith("table-")] == [
            "commit.lock", "compact.lock",
        ]  # fmt: skip
        assert len([name for name in left if name.startswith("table-")]) <= 2


@pytest.mark.slow
def test_compactions_that_are_killed_beside_a_landing_lose_and_double_no_row(landed):
    command = [sys.executable, str(PROGRAM), str(landed), str(STEPS["parquet"]), "11"]

    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)

    *statuses, last = map(int, ended.stdout.split())
    assert statuses.count(-signal.SIGKILL) >= 8
    assert set(statuses) <= {0, -signal.SIGKILL}
    assert numbers_in(LandedTable(landed / "table").read()) == list(range(1, last + 1))
    assert compact(landed).files_after == 1
    assert numbers_in(LandedTable(landed / "table").read()) == list(range(1, last + 1))


def test_a_delta_table_is_joined_by_its_own_optimize(tmp_path):
    land_rows(DeltaLandedTable(tmp_path / "table"), 1, 10)

    summary = compact(tmp_path)

    assert (summary.files_before, summary.files_after) == (10, 1)
    assert DeltaTable(str(tmp_path / "table")).history()[0]["operation"] == "OPTIMIZE"
    assert DeltaLandedTable(tmp_path / "table").reached.commits == 10


def test_two_compactions_at_once_are_refused(landed):
    with (landed / "_dray" / "compact.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match="another compaction works in"):
            compact(landed)


def test_what_is_no_table_of_a_landing_is_refused(tmp_path):
    with pytest.raises(InvalidConfiguration, match="has no table of a landing"):
        compact(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_copy_of_a_table_without_its_link_is_refused_and_the_way_out_works(landed):
    table, generation = landed / "table", Path(os.path.realpath(landed / "table"))
    table.unlink()
    generation.rename(table)
    with pytest.raises(InvalidConfiguration, match="is no link into _dray") as refused:
        compact(landed)

    assert str(generation) in str(refused.value)
    table.rename(generation)
    make_table(table)
    assert compact(landed).files_after == 1
    assert numbers_in(LandedTable(table).read()) == list(range(1, 11))


def test_a_copy_that_followed_the_link_keeps_what_landed_into_it_on_the_way_out(landed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(landed, copy)
    land_rows(LandedTable(copy / "table"), 11, 12)
    with pytest.raises(InvalidConfiguration, match="is no link into _dray") as refused:
        compact(copy)

    told = re.search(r"move the directory to (\S+), and", str(refused.value))
    # As `mv` does, which moves into a directory that is there.
    shutil.move(copy / "table", told[1])
    assert numbers_in(LandedTable(copy / "table").read()) == list(range(1, 13))
    assert compact(copy).files_after == 1


def test_a_link_that_was_lost_is_made_again_to_the_newest_generation(landed):
    compact(landed)
    (landed / "table").unlink()
    assert numbers_in(LandedTable(landed / "table").read()) == list(range(1, 11))
    assert len(commits_in(landed / "table")) == 1


def test_a_full_disk_is_told_and_the_table_stays(landed, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "fsync", full)
        with pytest.raises(StoreFull):
            compact(landed)
    assert len(commits_in(landed / "table")) == 10
    assert compact(landed).files_after == 1
