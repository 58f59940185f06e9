"""Which heap files stay open: a bounded number, and never too few for a sync."""

from __future__ import annotations

from random import Random

import pytest

from dray.store.descriptors import Descriptors
from dray.store.heap import Heap
from dray.store.heap_file import HeapFile
from dray.testing.disk import SimDisk

FILE_BYTES = 1000


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def heap(disk, monkeypatch):
    monkeypatch.setattr("dray.store.descriptors.HEAP_DESCRIPTORS", 6)
    heap = Heap(disk, FILE_BYTES)
    yield heap
    heap.close()


def is_open(heap):
    return [each.number for each in heap._files.values() if each.file is not None]


def test_descriptors_are_bounded_and_files_reopened(heap):
    extents = []
    for number in range(20):
        extents.append(heap.place(bytes([number]) * FILE_BYTES))
        heap.captured(heap.capture())
        assert len(is_open(heap)) <= 6
    for number, extent in enumerate(extents):
        view = memoryview(bytearray(FILE_BYTES))
        heap.read_into(extent, view)
        assert bytes(view) == bytes([number]) * FILE_BYTES


def test_who_writes_without_syncing_pays_with_a_sync(disk, heap):
    for _ in range(20):
        heap.place(bytes(FILE_BYTES))
    assert disk.syncs == 14
    assert len(is_open(heap)) == 6


def test_a_descriptor_that_a_sync_needs_is_never_closed(heap):
    for _ in range(6):
        heap.place(bytes(FILE_BYTES))
    captures = heap.capture()
    heap.place(bytes(FILE_BYTES))
    assert len(is_open(heap)) == 7
    assert all(each.heap_file.file is each.file for each in captures)
    heap.captured(captures)
    heap.place(bytes(FILE_BYTES))
    assert len(is_open(heap)) == 6


def test_what_was_not_used_for_longest_is_closed_first(heap):
    for _ in range(6):
        heap.place(bytes(FILE_BYTES))
        heap.captured(heap.capture())
    view = memoryview(bytearray(1))
    (first, *_) = [each for each in heap._files.values() if each.number == 1]
    heap._file(first).read_into(view, 0)
    heap.place(bytes(FILE_BYTES))
    assert is_open(heap) == [1, 3, 4, 5, 6, 7]


def test_a_file_without_a_descriptor_has_none_to_give_up(disk):
    held = Descriptors(disk, lambda _capture: None)
    heap_file = HeapFile(1)
    held.give_up(heap_file)
    assert heap_file.file is None
    held.file(heap_file, FILE_BYTES)
    held.close()
    assert heap_file.file is None
