"""Which file of a kind takes the next extent, and which numbers new files get."""

from __future__ import annotations

from dray.store.heap.heap_file import HeapFile
from dray.store.heap.heap_pool import HeapPool
from dray.store.kinds import Kind, heap_file_number

FILE_BYTES = 1000


def opened(number, position):
    heap_file = HeapFile(heap_file_number(Kind.JOURNAL, number))
    heap_file.position = position
    return heap_file


def test_the_open_file_with_the_least_room_that_fits_is_taken():
    pool = HeapPool(Kind.JOURNAL)
    pool.open = [opened(1, 100), opened(2, 700), opened(3, 900)]
    assert pool.tightest(300, FILE_BYTES) is pool.open[1]
    assert pool.tightest(100, FILE_BYTES) is pool.open[2]


def test_an_extent_that_fits_nowhere_is_told():
    pool = HeapPool(Kind.JOURNAL)
    pool.open = [opened(1, 500)]
    assert pool.tightest(501, FILE_BYTES) is None


def test_a_new_file_is_numbered_above_all_of_its_kind_and_of_no_other():
    pool = HeapPool(Kind.JOURNAL)
    files = [(Kind.JOURNAL, 7), (Kind.JOURNAL, 2), (Kind.RECOVERABLE, 40)]
    pool.skip([heap_file_number(*each) for each in files])
    assert pool.new_number() == heap_file_number(Kind.JOURNAL, 8)
    assert pool.new_number() == heap_file_number(Kind.JOURNAL, 8), "until it is told"
