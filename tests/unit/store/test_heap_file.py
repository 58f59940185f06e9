"""Live blocks are right whatever the pieces in which bytes come and go."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dray.store.heap_file import LiveBlocks
from dray.store.limits import BLOCK_BYTES

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


@given(st.lists(st.integers(1, BYTES - 1), unique=True))
def test_pieces_that_come_one_by_one_are_the_whole(cuts):
    edges = [0, *sorted(cuts), BYTES]
    blocks = LiveBlocks()
    for start, stop in pairwise(edges):
        blocks.add(start, stop - start)
    assert blocks.bits() == b"\x3f"
    blocks.clear()
    assert blocks.bits() == b""
