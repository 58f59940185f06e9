"""Entries in a row: what is asked of all at once agrees with what each of them says."""

from __future__ import annotations

from random import Random

import pytest

from dray.manager.entries.entry import (
    copies_of,
    expires_us_of,
    is_express_entry,
    length_of,
    lookup_id_of,
    marks_of,
    number_of,
    part_of,
    place_in,
    unpack,
    with_key,
)
from dray.manager.entries.packed import (
    any_asks_in,
    any_came_back_in,
    claims_in,
    entries_in,
    expiries_in,
    express_in,
    lengths_in,
    part_count_in,
    places_in,
    positions_in,
    routes_in,
    runs_in,
    with_aborts,
    with_keys,
)
from dray.manager.entries.staged import Staged
from dray.manager.entries.tails import _plain_tails, pack_tail, packed_tails, with_expiry
from dray.store.heap.heap import Extent
from tests.drawn_entries import tail


@pytest.mark.parametrize("seed", range(10))
def test_what_is_asked_of_a_run_is_the_sum_of_its_entries(seed):
    rng = Random(seed)
    tails = [tail(rng) for _ in range(rng.randrange(7))]
    packed = with_keys(b"".join(tails), 1000)
    entries = [with_key(each, 1000 + at) for at, each in enumerate(tails)]
    assert entries_in(packed) == entries
    each_one = [unpack(entry) for entry in entries]
    assert list(positions_in(packed)) == [entry.lookup_id for entry in each_one]
    assert list(lengths_in(packed)) == [entry.length for entry in each_one]
    assert list(places_in(packed)) == [entry.extent for entry in each_one]
    assert list(claims_in(packed)) == [(entry.extent, entry.crc) for entry in each_one]
    assert list(routes_in(packed)) == [entry.route for entry in each_one]
    assert part_count_in(packed) == sum(entry.part > 0 for entry in each_one)
    assert any_asks_in(packed) == any(entry.copies for entry in each_one)
    assert entries_in(express_in(packed)) == [entry for entry in entries if is_express_entry(entry)]
    assert expiries_in(packed) == [
        (entry.expires_us, entry.lookup_id) for entry in each_one if entry.expires_us
    ]
    for packed_one, entry in zip(entries, each_one, strict=True):
        assert (expires_us_of(packed_one), marks_of(packed_one)) == (entry.expires_us, entry.marks)
        assert (part_of(packed_one), copies_of(packed_one)) == (entry.part, entry.copies)
        assert (number_of(packed_one), length_of(packed_one)) == (entry.number, entry.length)
        assert place_in(packed_one) == (entry.extent, entry.crc)
    bytes_of_runs = [
        (run.file, run.offset + at) for run in runs_in(packed) for at in range(run.length)
    ]
    assert bytes_of_runs == [
        (entry.file, entry.offset + at) for entry in each_one for at in range(entry.length)
    ]


def test_one_entry_that_expires_is_found_among_others():
    rng = Random(1)
    tails = [with_expiry(tail(rng), 0) for _ in range(3)]
    assert expiries_in(with_keys(b"".join(tails), 5)) == []
    tails[1] = with_expiry(tails[1], 77)
    assert expiries_in(with_keys(b"".join(tails), 5)) == [(77, 6)]


def test_records_side_by_side_are_one_run():
    def at(file: int, offset: int, length: int) -> bytes:
        place = Extent(file, offset, length)
        return pack_tail(Staged(place, 0, 1, 0, 0, 0), 0, 0)

    packed = with_keys(at(1, 0, 70) + at(1, 70, 80) + at(2, 150, 90) + at(1, 150, 64), 1)
    assert runs_in(packed) == [Extent(1, 0, 150), Extent(2, 150, 90), Extent(1, 150, 64)]
    assert runs_in(b"") == []


@pytest.mark.parametrize("at", range(3))
def test_one_entry_that_came_back_is_enough(at):
    rng = Random(at)
    entries = [with_key(pack_tail(plain(rng), 0, 1), 5 + each) for each in range(3)]
    assert not any_came_back_in(b"".join(entries))
    entries[at] = with_aborts(entries[at])
    assert any_came_back_in(b"".join(entries))


def test_aborts_are_counted_in_each_entry_and_the_count_stops_at_its_highest():
    packed = with_keys(b"".join([tail(Random(at)) for at in range(3)]), 5)
    before = list(map(unpack, entries_in(packed)))
    after = list(map(unpack, entries_in(with_aborts(packed))))
    assert after == [each._replace(abort_count=each.abort_count + 1) for each in before]
    for _ in range(300):
        packed = with_aborts(packed)
    assert [each.abort_count for each in map(unpack, entries_in(packed))] == [255] * 3


@pytest.mark.parametrize("transaction", [0, 77])
def test_a_record_alone_is_packed_as_a_group_of_one(transaction):
    record = plain(Random(transaction))
    assert packed_tails([record], transaction, 9, 4) == _plain_tails([record], transaction, 9, 4)


def plain(rng: Random) -> Staged:
    priority, copies = rng.randrange(8), rng.randrange(8)
    return Staged(Extent(1, 2, 3), 4, 5, 0, priority, 6, rng.randrange(2), copies)


@pytest.mark.parametrize("position", [1, 255, 256, 1 << 32, 1 << 56, (1 << 64) - 2])
def test_a_position_of_any_length_comes_back(position):
    tails = [tail(Random(position)) for _ in range(2)]
    assert lookup_id_of(with_key(tails[0], position)) == position
    assert list(positions_in(with_keys(b"".join(tails), position))) == [position, position + 1]
