"""Express payload: in memory while there is room, never synced, gone after a restart."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreFull
from dray.store.heap.heap import Extent, Heap
from dray.store.kinds import Kind, file_name, kind_of
from dray.store.limits import HEAP_OPEN_FILES
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import HEAP_BYTES, LOG_BYTES, Ledger, Store

FILE_BYTES = 1000
BUDGET = 2500


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def heap(disk):
    heap = Heap(disk, FILE_BYTES, express_bytes=BUDGET)
    yield heap
    heap.close()


def express(heap: Heap, data: bytes) -> Extent:
    return heap.place(data, Kind.EXPRESS)


def read(heap: Heap, extent: Extent) -> bytes:
    image = bytearray(extent.length)
    heap.read_into(extent, memoryview(image))
    return bytes(image)


def r_files(disk: SimDisk) -> list[str]:
    return [name for name in disk.names() if name.startswith("r")]


def test_what_fits_the_budget_never_touches_the_disk(disk, heap):
    extents = [express(heap, bytes([number]) * 500) for number in range(5)]
    assert disk.names() == []
    assert all(kind_of(each.file) is Kind.EXPRESS and heap.in_memory(each.file) for each in extents)
    assert [read(heap, each)[0] for each in extents] == list(range(5))
    assert heap.dirty_ranges() == []
    assert heap.live_blocks() == {}


def test_beyond_the_budget_the_oldest_is_written_out(disk, heap):
    extents = [express(heap, bytes([number]) * 900) for number in range(6)]
    assert r_files(disk) == [file_name(each.file) for each in extents[:4]]
    assert [heap.in_memory(each.file) for each in extents] == [False] * 4 + [True] * 2
    assert [read(heap, each) for each in extents] == [bytes([n]) * 900 for n in range(6)]
    assert disk.syncs == 0
    assert heap.capture() == []


def test_a_file_that_was_written_out_still_takes_messages(disk, heap):
    first = express(heap, b"a" * 600)
    for _ in range(2):
        express(heap, b"b" * 900)
    express(heap, b"c" * 850)
    assert not heap.in_memory(first.file)
    small = express(heap, b"d" * 300)
    assert small.file == first.file
    assert read(heap, small) == b"d" * 300
    assert read(heap, first) == b"a" * 600


def test_an_emptied_file_leaves_neither_memory_nor_disk_occupied(disk, heap):
    extents = [express(heap, bytes(900)) for _ in range(12)]
    for extent in extents:
        heap.free(extent)
    assert r_files(disk) == []
    assert heap.live_bytes == 0
    assert heap.express_memory == (BUDGET, 0)
    assert heap.files == HEAP_OPEN_FILES
    assert not heap.in_memory(extents[0].file)
    for _ in range(2):
        express(heap, bytes(900))
    assert r_files(disk) == []


def test_a_file_that_is_written_out_again_has_its_name_again(disk):
    heap = Heap(disk, FILE_BYTES, express_bytes=0)
    heap.free(express(heap, b"x" * 10))
    assert r_files(disk) == []
    extent = express(heap, b"y" * 10)
    assert disk.image(file_name(extent.file))[:10] == b"y" * 10


def test_a_pinned_file_waits_until_its_answer_has_gone_out(heap):
    extent = express(heap, b"x" * 900)
    heap.pin(extent.file)
    heap.free(extent)
    assert read(heap, extent) == b"x" * 900
    heap.unpin(extent.file)
    assert express(heap, b"y" * 900).offset == 0


def test_a_full_disk_refuses_what_the_memory_cannot_hold(disk, heap):
    kept = [express(heap, bytes([number]) * 900) for number in range(2)]
    disk.full_after(500)
    with pytest.raises(StoreFull) as raised:
        express(heap, bytes(900))
    assert raised.value.event == 2085
    assert [read(heap, each) for each in kept] == [bytes([n]) * 900 for n in range(2)]
    assert heap.live_bytes == 1800


def test_without_a_budget_everything_goes_to_the_disk(disk):
    heap = Heap(disk, FILE_BYTES, express_bytes=0)
    extent = express(heap, b"x" * 10)
    assert r_files(disk) == [file_name(extent.file)]
    assert read(heap, extent) == b"x" * 10


@pytest.mark.parametrize("ask", [Heap.descriptor, lambda heap, file: heap.opener(file)()])
def test_asking_for_a_descriptor_writes_the_file_out(disk, heap, ask):
    extent = express(heap, b"x" * 10)
    with pytest.raises(NotImplementedError):
        ask(heap, extent.file)
    assert r_files(disk) == [file_name(extent.file)]
    assert read(heap, extent) == b"x" * 10


# -------------------------------------------------------------------------------- in the store


def opened(disk: SimDisk) -> tuple[Store, Ledger]:
    ledger = Ledger()
    store = Store(disk, heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES, express_bytes=5000)
    store.recover(ledger.load)
    return store, ledger


@pytest.mark.parametrize("fate", list(CrashEffect))
def test_a_restart_empties_the_express_files_and_nothing_else(disk, fate):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"told" * 100)
    ledger.end_turn(store)
    for _ in range(5):
        store.place(bytes(2000), Kind.EXPRESS)
    store.sync()
    assert r_files(disk)
    after = disk.crash(fate)
    store, again = opened(after)
    assert r_files(after) == []
    assert again.state() == ledger.state()
    again.check(store)
    assert store.live_bytes == 400


def test_express_payload_alone_wants_no_sync(disk):
    store, _ = opened(disk)
    store.sync()
    before = disk.syncs
    extent = store.place(b"x" * 100, Kind.EXPRESS)
    assert store.in_memory(extent.file)
    assert store.begin_sync() is None
    store.discard(extent)
    assert disk.syncs == before
    assert store.live_bytes == 0
