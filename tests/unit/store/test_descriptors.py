"""Which heap files stay open: a bounded number, and never too few for a sync."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from dray.errors import StoreCorrupt
from dray.store.heap.descriptors import Descriptors
from dray.store.heap.heap import Heap
from dray.store.heap.heap_file import HeapFile
from dray.store.kinds import file_name
from dray.store.real_disk import OwnMarks, RealDisk
from dray.testing.disk import SimDisk

FILE_BYTES = 1000


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def heap(disk, monkeypatch):
    monkeypatch.setattr("dray.store.heap.descriptors.HEAP_DESCRIPTORS", 6)
    heap = Heap(disk, FILE_BYTES)
    yield heap
    heap.close()


def is_open(heap):
    return [each.number for each in heap._files.values() if each.file is not None]


def test_descriptors_are_bounded_and_files_reopened(disk, heap):
    extents = []
    for number in range(20):
        extents.append(heap.place(bytes([number]) * FILE_BYTES))
        heap.captured(heap.capture())
        assert len(is_open(heap)) <= 6
    for number, extent in enumerate(extents):
        view = memoryview(bytearray(FILE_BYTES))
        heap.read_into(extent, view)
        assert bytes(view) == bytes([number]) * FILE_BYTES
    assert disk.syncs == 0, "what is durable is closed without a sync"


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


class Changes(OwnMarks):
    """Hears what the disk says of its own changes."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def announce(self, act: str, name: str) -> None:
        if act == "closes":
            self.closed.append(name)


@pytest.fixture
def changes():
    return Changes()


@pytest.fixture
def real_heap(tmp_path, changes, monkeypatch):
    """On a real disk, with six files to write to and two to read from."""
    monkeypatch.setattr("dray.store.heap.descriptors.HEAP_DESCRIPTORS", 6)
    monkeypatch.setattr("dray.store.heap.descriptors.HEAP_READERS", 2)
    disk = RealDisk(tmp_path, changes=changes)
    heap = Heap(disk, FILE_BYTES)
    yield heap
    heap.close()
    disk.close()


def placed(heap, files):
    extents = []
    for number in range(files):
        extents.append(heap.place(bytes([number]) * FILE_BYTES))
        heap.captured(heap.capture())
    return extents


def descriptors_open(folder):
    """How many of this process are of heap files in a data directory."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += (
                each.readlink().parent == folder / "storage" and each.readlink().suffix == ".mq"
            )
    return found


def test_who_is_sent_many_files_closes_none_that_could_be_written_to(real_heap, changes, tmp_path):
    extents = placed(real_heap, 20)
    open_to_write, changes.closed = is_open(real_heap), []
    for _ in range(2):
        for number, extent in enumerate(extents):
            descriptor = real_heap.descriptor(extent.file)
            assert os.pread(descriptor, extent.length, 0) == bytes([number]) * FILE_BYTES
    assert (is_open(real_heap), changes.closed) == (open_to_write, [])
    assert descriptors_open(tmp_path) == 6 + 2
    (first,) = (each for each in extents if each.file == 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(real_heap.descriptor(first.file), b"x", 0)


def test_what_is_open_to_write_is_read_by_that(real_heap, tmp_path):
    (extent,) = placed(real_heap, 1)
    real_heap.descriptor(extent.file)
    assert descriptors_open(tmp_path) == 1


def test_of_a_file_that_is_given_back_nothing_stays_open(real_heap, monkeypatch, tmp_path):
    monkeypatch.setattr("dray.store.heap.heap.HEAP_FREE_FILES", 0)
    extents = placed(real_heap, 20)
    real_heap.descriptor(extents[0].file)
    real_heap.free(extents[0])
    real_heap.trim(1)
    assert not (tmp_path / "storage" / "p0000001.mq").exists()
    with pytest.raises(StoreCorrupt):
        real_heap.descriptor(extents[0].file)
    real_heap.descriptor(extents[1].file)
    real_heap.close()
    assert descriptors_open(tmp_path) == 0


def test_of_files_to_read_those_stay_open_that_were_read_last(real_heap, monkeypatch):
    extents = placed(real_heap, 20)
    opened = []
    open_to_read = RealDisk.open_to_read

    def opens(disk, name):
        opened.append(name)
        return open_to_read(disk, name)

    monkeypatch.setattr(RealDisk, "open_to_read", opens)
    first, second, third, *_ = (file_name(each.file) for each in extents)
    for at in (0, 1, 0, 2, 0, 1):
        real_heap.descriptor(extents[at].file)
    assert opened == [first, second, third, second]
