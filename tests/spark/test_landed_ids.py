"""Which sequence ids a table has: by ranges of numbers, and by files where ranges do not decide."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dray.errors import StoreCorrupt
from dray.spark.landing import landed_ids
from dray.spark.landing.landed_ids import LandedIds, split_ids, with_ids

SOURCE, OTHER = "a" * 32, "b" * 32


def ids(*numbers, source=SOURCE):
    return pa.array([f"{source}\\{number}" for number in numbers], pa.string())


class Files:
    """Files of a table, written one after the other."""

    def __init__(self, directory):
        self.directory = directory
        self.paths = []
        self.cover = {}
        self.ids = LandedIds(lambda: list(self.paths))

    def add(self, *arrays):
        path = self.directory / f"{len(self.paths)}.parquet"
        column = pa.chunked_array(list(arrays))
        pq.write_table(pa.table({"sequence_id": column}), path)
        self.paths.append(path)
        self.cover = with_ids(self.cover, column)

    def have(self, array):
        return self.ids.have(self.cover, array)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_ids_are_taken_apart():
    split = split_ids(pa.chunked_array([ids(3, 1), ids(7, source=OTHER)]))
    told = {source: (list(at), list(numbers)) for source, at, numbers in split.by_source()}
    assert told == {SOURCE: ([0, 1], [3, 1]), OTHER: ([2], [7])}
    assert split_ids(pa.chunked_array([], pa.string())).sources == []


def test_numbers_without_a_gap_are_one_range():
    cover = with_ids({}, ids(3, 1, 2))
    assert cover == {SOURCE: ((1, 3),)}
    assert with_ids(cover, ids(4, 9, 8)) == {SOURCE: ((1, 4), (8, 9))}
    assert with_ids(cover, ids(2, source=OTHER)) == {SOURCE: ((1, 3),), OTHER: ((2, 2),)}


def test_a_new_number_costs_no_look_at_a_file(files):
    files.add(ids(*range(1, 1001)))
    assert files.have(ids(*range(1001, 1010))) == [False] * 9
    assert files.have(ids(5, source=OTHER)) == [False]
    assert files.ids.files_read == 0


def test_a_number_that_landed_is_found_in_the_file_that_has_it(files):
    files.add(ids(*range(1, 1001)))
    files.add(ids(*range(1001, 2001)), ids(7, source=OTHER))
    assert files.have(ids(1500, 2001)) == [True, False]
    assert files.ids.files_read == 1
    assert files.have(ids(7, source=OTHER)) == [True]
    assert files.ids.files_read == 1
    assert files.have(ids(1999, 3)) == [True, True]
    assert files.ids.files_read == 2


def test_the_cover_stays_small_and_holds_every_number(monkeypatch):
    monkeypatch.setattr("dray.spark.landing.landed_ids.RANGES_MAX", 40)
    chance = random.Random(3)
    cover, landed = {}, {SOURCE: set(), OTHER: set()}
    for _ in range(30):
        for source, numbers in landed.items():
            new = chance.sample(range(10_000), 20)
            numbers.update(new)
            cover = with_ids(cover, ids(*new, source=source))
    for source, numbers in landed.items():
        assert len(cover[source]) <= 20
        assert all(any(a <= each <= b for a, b in cover[source]) for each in numbers)
        assert list(cover[source]) == sorted(cover[source])


def test_many_ranges_close_the_narrowest_gaps(monkeypatch):
    monkeypatch.setattr("dray.spark.landing.landed_ids._RANGES_OF_A_SOURCE_MAX", 2)
    assert with_ids({}, ids(1, 3, 50, 52, 54)) == {SOURCE: ((1, 3), (50, 54))}


def test_within_a_cover_that_is_not_exact_the_files_decide(files, monkeypatch):
    monkeypatch.setattr("dray.spark.landing.landed_ids._RANGES_OF_A_SOURCE_MAX", 1)
    files.add(ids(*range(0, 1000, 2)))
    assert files.have(ids(4, 5, 998, 999)) == [True, False, True, False]
    # Asked once, a file is not read again.
    assert files.have(ids(7, 8)) == [False, True]
    assert files.ids.files_read == 1


def test_what_is_kept_of_files_has_a_bound(files, monkeypatch):
    monkeypatch.setattr("dray.spark.landing.landed_ids._BYTES_KEPT_MAX", 16_000)
    monkeypatch.setattr("dray.spark.landing.landed_ids._RANGES_OF_A_SOURCE_MAX", 1)
    for first in range(0, 10_000, 1000):
        files.add(ids(*range(first, first + 1000)))
    assert files.have(ids(*range(0, 10_000, 500))) == [True] * 20
    assert len(files.ids._kept) <= 2
    before = files.ids.files_read
    # Bounds of files are known by now, so only the file that may have it is read again.
    assert files.have(ids(5)) == [True]
    assert files.ids.files_read - before <= 1


def test_a_file_that_was_joined_with_others_meanwhile_is_found_in_the_new_list(tmp_path):
    files = Files(tmp_path)
    files.add(ids(1, 2))
    files.add(ids(3, 4))
    old, joined = list(files.paths), tmp_path / "joined.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(path) for path in old]), joined)
    lists = [old, [joined], [joined]]
    found = LandedIds(lambda: lists.pop(0) if len(lists) > 1 else lists[0])
    for path in old:
        path.unlink()
    assert found.have(files.cover, ids(1, 4, 5)) == [True, True, False]


def test_a_file_that_is_gone_or_damaged_is_named(files):
    files.add(ids(1, 2))
    files.paths[0].write_bytes(b"no parquet")
    with pytest.raises(StoreCorrupt, match=r"0\.parquet is a file of a landed table"):
        files.have(ids(1))
    files.paths[0].unlink()
    with pytest.raises(StoreCorrupt, match=r"0\.parquet"):
        files.have(ids(1))


def test_a_million_ids_are_looked_up_by_one_range():
    numbers = np.arange(1_000_000)
    column = pa.array(numbers).cast(pa.string())
    column = pc.binary_join_element_wise(SOURCE, column, "\\")
    cover = with_ids({}, column)
    assert cover == {SOURCE: ((0, 999_999),)}
    found = LandedIds(lambda: pytest.fail("no file has to be read"))
    assert found.have(cover, ids(1_000_000, 2_000_000)) == [False, False]
    assert landed_ids.RANGES_MAX * 24 < 128 * 1024
