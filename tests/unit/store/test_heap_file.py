"""Live blocks are right whatever the pieces in which bytes come and go."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.store.heap.heap_file import HeapFile, LiveBlocks
from dray.store.limits import BLOCK_BYTES, COPIED_BYTES_MAX
from dray.testing.disk import SimDisk

BYTES = 6 * BLOCK_BYTES


def expected(live: set[int]) -> int:
    image = 0
    for byte in live:
        image |= 1 << byte // BLOCK_BYTES
    return image


@given(st.lists(st.integers(1, BYTES - 1), unique=True), st.data())
def test_a_block_is_live_as_long_as_one_byte_of_it_is(cuts, data):
    edges = [0, *sorted(cuts), BYTES]
    pieces = list(pairwise(edges))
    blocks = LiveBlocks()
    blocks.add(0, BYTES)
    live = set(range(BYTES))
    for start, stop in data.draw(st.permutations(pieces)):
        blocks.remove(start, stop - start)
        live.difference_update(range(start, stop))
        assert int.from_bytes(blocks.bits(), "little") == expected(live)
    assert blocks.bits() == b""


@pytest.mark.parametrize(("beyond", "kept"), [(0, COPIED_BYTES_MAX), (1, 0)])
def test_the_newest_bytes_are_kept_if_the_log_may_take_a_copy_of_them(beyond, kept):
    heap_file, length = HeapFile(1), COPIED_BYTES_MAX + beyond
    heap_file.write(SimDisk(Random(1)).open("p0000001.mq", size=length), bytes(length))
    assert len(heap_file.newest) == kept


@given(st.lists(st.integers(1, BYTES - 1), unique=True))
def test_pieces_that_come_one_by_one_are_the_whole(cuts):
    edges = [0, *sorted(cuts), BYTES]
    blocks = LiveBlocks()
    for start, stop in pairwise(edges):
        blocks.add(start, stop - start)
    assert blocks.bits() == b"\x3f"
    blocks.clear()
    assert blocks.bits() == b""


@given(st.lists(st.integers(1, BYTES - 1), unique=True), st.data())
def test_pieces_that_come_and_go_in_any_order_are_counted_right(cuts, data):
    pieces = list(pairwise([0, *sorted(cuts), BYTES]))
    blocks, live, here = LiveBlocks(), set(), set()
    for at in data.draw(st.lists(st.sampled_from(range(len(pieces))), max_size=3 * len(pieces))):
        start, stop = pieces[at]
        if at in here:
            blocks.remove(start, stop - start)
            live.difference_update(range(start, stop))
        else:
            blocks.add(start, stop - start)
            live.update(range(start, stop))
        here ^= {at}
        assert int.from_bytes(blocks.bits(), "little") == expected(live)


def test_what_lies_in_one_piece_costs_no_table():
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        files = [LiveBlocks() for _ in range(1000)]
        for blocks in files:
            blocks.add(0, 2_000_000)
            blocks.add(2_000_000, 2_000_000)
            blocks.remove(0, 1_000_000)
            blocks.remove(3_000_000, 1_000_000)
        assert (tracemalloc.get_traced_memory()[0] - before) / len(files) < 1024
    finally:
        tracemalloc.stop()


def test_bytes_that_are_not_live_cannot_be_given_up():
    blocks = LiveBlocks()
    blocks.add(100, 100)
    for offset in (50, 150):
        with pytest.raises(AssertionError, match="were not live"):
            blocks.remove(offset, 100)
