"""A heap file that an answer refers to is not overwritten before the answer has gone out."""

from __future__ import annotations

import pytest

from dray.store.heap.heap import Extent, Heap
from dray.store.real_disk import RealDisk

FILE_BYTES = 4096


@pytest.fixture
def heap(tmp_path):
    heap = Heap(RealDisk(tmp_path), FILE_BYTES)
    yield heap
    heap.close()


def read(heap: Heap, extent: Extent) -> bytes:
    image = bytearray(extent.length)
    heap.read_into(extent, memoryview(image))
    return bytes(image)


def fill(heap: Heap, byte: bytes) -> list[Extent]:
    return [heap.place(byte * FILE_BYTES) for _ in range(8)]


def test_bytes_of_a_pinned_file_survive_their_release(heap):
    extent = heap.place(b"a" * FILE_BYTES)
    heap.pin(extent.file)
    heap.free(extent)
    assert extent.file not in {each.file for each in fill(heap, b"b")}
    assert read(heap, extent) == b"a" * FILE_BYTES


def test_an_open_file_is_not_rewound_while_it_is_pinned(heap):
    extent = heap.place(b"a" * 10)
    heap.pin(extent.file)
    heap.free(extent)
    later = heap.place(b"b" * 10)
    assert (later.file, later.offset) == (extent.file, 10)
    assert read(heap, extent) == b"a" * 10


def test_a_file_is_reused_after_its_last_pin_is_taken_back(heap):
    extent = heap.place(b"a" * FILE_BYTES)
    fill(heap, b"b")
    heap.pin(extent.file)
    heap.pin(extent.file)
    heap.free(extent)
    heap.unpin(extent.file)
    assert heap.free_files == 0
    heap.unpin(extent.file)
    assert heap.free_files == 1
    assert heap.place(b"c" * FILE_BYTES).file == extent.file


def test_a_pin_of_a_live_file_changes_nothing(heap):
    extent = heap.place(b"a" * 10)
    heap.pin(extent.file)
    heap.unpin(extent.file)
    assert read(heap, extent) == b"a" * 10
    assert heap.live_bytes == 10
