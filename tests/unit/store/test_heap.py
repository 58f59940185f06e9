"""Where payload is put, when its bytes may be used again, and which descriptors stay open."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreCorrupt, StoreFull
from dray.store.heap import heap as heap_module
from dray.store.heap.heap import Extent, Heap, Occupancy
from dray.store.kinds import Kind
from dray.store.limits import BLOCK_BYTES, FLUSH_SHARE, HEAP_FILE_BYTES, HEAP_OPEN_FILES
from dray.store.log.group import DirtyRange
from dray.testing.disk import Operation, SimDisk, SimFile

FILE_BYTES = 1000


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def heap(disk):
    heap = Heap(disk, FILE_BYTES)
    yield heap
    heap.close()


def read(heap: Heap, extent: Extent) -> bytes:
    image = bytearray(extent.length)
    heap.read_into(extent, memoryview(image))
    return bytes(image)


def synced(heap: Heap) -> None:
    captures = heap.capture()
    for capture in captures:
        capture.file.sync()
    heap.captured(captures)


def test_payload_is_read_back_whole_or_in_part(heap):
    extent = heap.place(b"0123456789")
    assert read(heap, extent) == b"0123456789"
    view = memoryview(bytearray(100))
    assert heap.read_into(extent, view, 4) == 6
    assert bytes(view[:7]) == b"456789\0"
    assert heap.live_bytes == heap.bytes_written == 10


def test_any_kind_of_buffer_is_placed(heap):
    numbers = memoryview(bytearray(8)).cast("Q")
    assert heap.place(numbers).length == 8
    assert heap.place(bytearray(b"abc")).length == 3


def test_nothing_takes_no_room(heap):
    extent = heap.place(b"")
    assert heap.read_into(extent, memoryview(bytearray(1))) == 0
    heap.free(extent)
    heap.free(extent)


def test_small_pieces_fill_the_tails_that_large_ones_leave(heap):
    large = [heap.place(bytes(900)) for _ in range(4)]
    assert [each.file for each in large] == [1, 2, 3, 4]
    small = [heap.place(bytes(50)) for _ in range(8)]
    assert {each.file for each in small} == {1, 2, 3, 4}
    assert heap.place(bytes(50)).file == 5


def test_no_more_than_a_few_files_are_open(heap):
    for _ in range(6):
        heap.place(bytes(900))
    assert heap.place(bytes(100)).file not in {1, 2}


def test_an_empty_file_is_recycled_lowest_number_first(heap):
    extents = [heap.place(bytes(1000)) for _ in range(8)]
    heap.free(extents[2])
    heap.free(extents[1])
    assert (heap.files, heap.free_files) == (8, 2)
    assert heap.place(bytes(10)).file == 2
    assert heap.free_files == 1


def test_an_open_file_that_becomes_empty_begins_anew(heap):
    first = heap.place(bytes(600))
    heap.free(first)
    assert heap.place(bytes(600)) == first
    assert heap.files == 1


def test_an_empty_open_file_that_is_shut_is_recycled(heap):
    first = heap.place(bytes(600))
    heap.free(first)
    for _ in range(4):
        heap.place(bytes(1000))
    assert heap.files == 4


def test_files_that_are_not_needed_go_back_to_the_file_system(disk, heap, monkeypatch):
    monkeypatch.setattr(heap_module, "HEAP_FREE_FILES", 2)
    extents = [heap.place(bytes(1000)) for _ in range(9)]
    held = heap.capture()
    heap.free(extents[0])
    heap.free(extents[1])
    heap.free(extents[2])
    heap.captured(held)
    heap.free(extents[3])
    assert (heap.free_files, heap.surplus_files, heap.files) == (4, 2, 9)
    heap.trim(1)
    assert (heap.free_files, heap.surplus_files, heap.files) == (3, 1, 8)
    assert "p0000004.mq" not in disk.names()
    heap.pin(extents[2].file)
    heap.trim(5)
    assert heap.surplus_files == 1
    heap.unpin(extents[2].file)
    heap.trim(5)
    assert (heap.free_files, heap.surplus_files, heap.files) == (2, 0, 7)
    assert "p0000003.mq" not in disk.names()
    assert heap.place(bytes(1000)) == extents[0]


def test_a_full_file_system_gets_one_file_at_a_time(heap):
    for extent in [heap.place(bytes(1000)) for _ in range(7)]:
        heap.free(extent)
    synced(heap)
    before = heap.files
    assert heap.give_back_one()
    assert heap.files == before - 1


def test_the_map_of_live_blocks_leaves_out_what_was_freed(disk):
    heap = Heap(disk, 4 * BLOCK_BYTES)
    first, second = (heap.place(bytes(BLOCK_BYTES)) for _ in range(2))
    assert heap.live_blocks() == {1: b"\x03"}
    heap.free(first)
    assert heap.live_blocks() == {1: b"\x02"}
    heap.free(second)
    assert heap.live_blocks() == {}


def test_the_log_has_no_copies_for_a_file_whose_size_may_be_lost(heap):
    heap.place(b"first")
    heap.names_synced = heap.names_made
    assert heap.copies(heap.dirty_ranges()) == b""
    synced(heap)
    heap.place(b"second")
    assert heap.copies(heap.dirty_ranges()) == b"second"


def test_a_file_without_a_descriptor_goes_back_to_the_file_system_too(disk, heap, monkeypatch):
    monkeypatch.setattr(heap_module, "HEAP_FREE_FILES", 0)
    monkeypatch.setattr("dray.store.heap.descriptors.HEAP_DESCRIPTORS", 2)
    extents = [heap.place(bytes(1000)) for _ in range(6)]
    heap.free(extents[0])
    heap.trim(1)
    assert "p0000001.mq" not in disk.names()


def test_an_unpinned_file_that_is_free_already_stays_free(heap):
    extent = heap.place(bytes(10))
    heap.free(extent)
    heap.pin(extent.file)
    heap.unpin(extent.file)
    assert heap.place(bytes(10)) == extent


def test_a_full_disk_refuses_a_piece_and_keeps_nothing_of_it(disk, heap):
    kept = heap.place(b"kept" * 200)
    disk.full_after(0)
    before = (heap.files, heap.live_bytes, heap.bytes_written)
    with pytest.raises(StoreFull):
        heap.place(bytes(900))
    assert (heap.files, heap.live_bytes, heap.bytes_written) == before
    assert heap.place(b"fits").file == 1
    assert read(heap, kept) == b"kept" * 200


def test_a_piece_longer_than_a_file_is_our_mistake(heap):
    with pytest.raises(AssertionError):
        heap.place(bytes(1001))


def test_freeing_twice_is_our_mistake(heap):
    heap.place(bytes(5))
    extent = heap.place(bytes(10))
    heap.free(extent)
    with pytest.raises(AssertionError):
        heap.free(extent)


# -------------------------------------------------------------------------------- being dirty


def test_dirty_ranges_are_what_no_ended_sync_covered(heap):
    heap.place(bytes(100))
    captures = heap.capture()
    heap.place(bytes(50))
    heap.captured(captures)
    assert heap.dirty_ranges() == [DirtyRange(1, 100, 150)]
    synced(heap)
    assert heap.dirty_ranges() == []
    assert not heap.dirty
    heap.place(bytes(5))
    assert heap.dirty_ranges() == [DirtyRange(1, 150, 155)]


def test_an_older_sync_that_ends_later_makes_nothing_dirty_again(heap):
    heap.place(bytes(100))
    older = heap.capture()
    heap.place(bytes(50))
    newer = heap.capture()
    heap.captured(newer)
    heap.captured(older)
    assert heap.dirty_ranges() == []


def test_a_sync_from_before_a_rewind_says_nothing_about_after(heap):
    extent = heap.place(bytes(100))
    captures = heap.capture()
    heap.free(extent)
    assert heap.dirty_ranges() == []
    heap.place(bytes(30))
    heap.captured(captures)
    assert heap.dirty_ranges() == [DirtyRange(1, 0, 30)]


def test_files_are_handed_out_once_until_they_come_back(heap):
    for _ in range(6):
        heap.place(bytes(1000))
    captures = heap.hand_out()
    assert [each.heap_file.number for each in captures] == [1, 2, 3, 4, 5, 6]
    assert heap.hand_out() == []
    for capture in captures[2:]:
        heap.hand_back(capture)
    assert {each.file for each in heap.dirty_ranges()} == {1, 2}
    assert heap.hand_out() == []


def test_an_open_file_is_handed_out_when_enough_of_it_is_not_durable(heap):
    heap.place(bytes(FILE_BYTES // FLUSH_SHARE - 1))
    assert heap.hand_out() == []
    heap.place(b"x")
    (capture,) = heap.hand_out()
    heap.place(bytes(FILE_BYTES // FLUSH_SHARE))
    assert heap.hand_out() == [], "it is with a worker"
    heap.hand_back(capture)
    assert heap.unsynced_bytes == FILE_BYTES // FLUSH_SHARE
    assert len(heap.hand_out()) == 1


def test_a_file_that_takes_no_more_is_handed_out_however_little_of_it_is_not_durable(heap):
    heap.place(bytes(FILE_BYTES - 1))
    synced(heap)
    heap.place(b"x")
    assert heap.hand_out() == []
    for _ in range(HEAP_OPEN_FILES):
        heap.place(bytes(FILE_BYTES))
    assert 1 in {each.heap_file.number for each in heap.hand_out()}


def test_bytes_wait_for_the_disk_until_a_sync_of_them_has_ended(heap):
    heap.place(bytes(700))
    captures = heap.capture()
    heap.place(bytes(200))
    assert heap.unsynced_bytes == 900
    heap.captured(captures)
    assert heap.unsynced_bytes == 200
    synced(heap)
    assert heap.unsynced_bytes == 0


def test_no_more_files_are_handed_out_than_the_bound(heap, monkeypatch):
    monkeypatch.setattr(heap_module, "HEAP_HANDED_OUT", 3)
    for _ in range(12):
        heap.place(bytes(1000))
    captures = heap.hand_out()
    assert len(captures) == 3
    heap.hand_back(captures[0])
    assert len(heap.hand_out()) == 1


def test_a_file_recycled_while_handed_out_stays_dirty_when_it_comes_back(heap):
    extents = [heap.place(bytes(1000)) for _ in range(5)]
    (capture, *_) = heap.hand_out()
    heap.free(extents[0])
    assert heap.place(bytes(1000)).file == 1
    heap.hand_back(capture)
    assert DirtyRange(1, 0, 1000) in heap.dirty_ranges()


# --------------------------------------------------------------------------------- coming back


def test_a_new_epoch_goes_on_behind_what_is_live(disk, heap):
    extents = [heap.place(bytes([number]) * 300) for number in range(4)]
    again = Heap(disk, FILE_BYTES)
    again.restore({1: Occupancy(300, 600)})
    assert read(again, extents[1]) == b"\1" * 300
    assert (again.files, again.free_files, again.live_bytes) == (2, 1, 300)
    assert again.place(bytes(400)) == Extent(1, 600, 400)
    assert again.place(bytes(400)).file == 2
    assert again.place(bytes(900)).file == 3


def test_a_new_epoch_reopens_the_roomiest_files_only(disk):
    heap = Heap(disk, FILE_BYTES)
    for _ in range(8):
        heap.place(bytes(1000))
    again = Heap(disk, FILE_BYTES)
    again.restore({n: Occupancy(100, 100 * n + 300) for n in range(1, 8)} | {8: Occupancy(9, 1000)})
    assert sorted(each.number for each in again._pools[Kind.RECOVERABLE].open) == [1, 2, 3, 4]
    full = Heap(disk, FILE_BYTES)
    full.restore({n: Occupancy(1000, 1000) for n in range(1, 9)})
    assert full._pools[Kind.RECOVERABLE].open == []


@pytest.mark.parametrize("known", [False, True])
def test_a_missing_file_is_named(heap, known):
    if known:
        heap.restore({7: Occupancy(10, 10)})
    for act in (
        lambda: read(heap, Extent(7, 0, 5)),
        lambda: heap.descriptor(7),
        lambda: heap.opener(7),
        lambda: heap.pin(7),
    ):
        with pytest.raises(StoreCorrupt, match=r"p0000007\.mq") as raised:
            act()
        assert raised.value.event == 2083
        assert raised.value.file == "p0000007.mq"


def test_a_file_that_ends_too_early_is_named(disk, heap):
    extent = heap.place(bytes(600))
    disk.cut_off("p0000001.mq", 599)
    with pytest.raises(StoreCorrupt, match=r"p0000001\.mq") as raised:
        read(heap, extent)
    assert raised.value.event == 2083


def occupancy(*extents):
    stock = {}
    for extent in extents:
        stock.setdefault(extent.file, Occupancy(size=FILE_BYTES)).add(extent)
    return stock


def test_after_a_start_the_roomiest_files_take_payload_and_others_are_recycled_once_empty(disk):
    heap = Heap(disk, FILE_BYTES)
    extents = [heap.place(bytes(900)) for _ in range(6)]
    heap.close()
    again = Heap(disk, FILE_BYTES)
    again.restore(occupancy(*extents))
    assert again.free_files == 0
    for extent in extents:
        again.free(extent)
    # Four of them are open, and take payload without being recycled.
    assert (again.free_files, again.empty_files, again.live_bytes) == (2, 6, 0)
    placed = [again.place(bytes(FILE_BYTES)) for _ in range(6)]
    assert len({each.file for each in placed}) == 6
    again.close()


def test_a_recycled_file_that_lost_its_size_gets_it_back(disk, heap):
    heap.place(bytes(600))
    disk.cut_off("p0000001.mq", 0)
    again = Heap(disk, FILE_BYTES)
    again.restore({})
    again.place(b"x")
    assert disk.open("p0000001.mq").size() == FILE_BYTES


def writes_of(disk: SimDisk, heap: Heap, length: int) -> list[tuple[int, int]]:
    """Offset and length of each write that placing so many bytes makes."""
    operations: list[Operation] = []
    disk.recorded(operations)
    heap.place(b"x" * length)
    return [(each.offset, len(each.data)) for each in operations if each.verb == "write"]


def test_small_payload_in_a_new_file_is_all_that_is_written(disk):
    heap = Heap(disk, HEAP_FILE_BYTES)
    assert [writes_of(disk, heap, 1_100) for _ in range(3)] == [
        [(at, 1_100)] for at in (0, 1_100, 2_200)
    ]


@pytest.fixture
def in_short_pieces(monkeypatch):
    monkeypatch.setattr("dray.store.heap.heap_file.BEGIN_BYTES_MIN", 200)
    monkeypatch.setattr("dray.store.heap.heap_file.WRITE_PIECE_BYTES", 300)


def done_to(heap: Heap, monkeypatch, length: int, kind: Kind = Kind.RECOVERABLE) -> list[str]:
    """What is asked of the disk while a piece of payload is placed, which is then read back."""
    done: list[str] = []
    write = SimFile.write

    def noted(self, data, offset):
        done.append(f"write {len(data)}")
        write(self, data, offset)

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "write", noted)
        patched.setattr(SimFile, "begin_writing", lambda _: done.append("begin"))
        data = Random(length).randbytes(length)
        assert read(heap, heap.place(data, kind)) == data
    return done


def test_the_disk_works_at_long_payload_while_the_rest_is_written(
    heap, monkeypatch, in_short_pieces
):
    assert done_to(heap, monkeypatch, 200) == ["write 200", "begin"]
    assert done_to(heap, monkeypatch, 700) == [
        *("write 300", "begin", "write 300", "begin"),
        *("write 100", "begin"),
    ]


def test_short_payload_waits_for_its_sync_and_express_for_none(disk, monkeypatch, in_short_pieces):
    heap = Heap(disk, FILE_BYTES, express_bytes=0)
    assert done_to(heap, monkeypatch, 199)[0] == "write 199"
    assert "begin" not in done_to(heap, monkeypatch, 199)
    heap.place(b"x" * 300, Kind.EXPRESS)
    assert "begin" not in done_to(heap, monkeypatch, 300, Kind.EXPRESS)


def test_long_payload_that_finds_no_room_half_way_leaves_nothing_behind(
    disk, heap, monkeypatch, in_short_pieces
):
    before = heap.place(b"b" * 10)
    write = SimFile.write

    def refused(self, data, offset):
        if offset >= 300:
            raise StoreFull("there is no room.", file=self.name)
        write(self, data, offset)

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "write", refused)
        with pytest.raises(StoreFull):
            heap.place(b"x" * 700)
    assert heap.live_bytes == before.length
    assert heap.place(b"y" * 700).offset == before.length


def test_a_sparse_file_is_one_that_takes_no_more_and_is_live_to_a_share_at_most(heap):
    extents = [heap.place(bytes(each)) for each in (250, 750, 251, 749, 1000, 1000, 1000, 1000)]
    assert [each.file for each in extents] == [1, 1, 2, 2, 3, 4, 5, 6]
    for each in (extents[1], extents[3]):
        heap.free(each)
    assert heap.sparse_files(4) == [1], "a quarter of the first is live, and more of the second"
    assert heap.sparse_files(3) == [1, 2]
    heap.free(extents[0])
    assert heap.sparse_files(3) == [2], "an empty file gives nothing back"


def test_an_open_file_is_not_sparse(heap):
    large, small = heap.place(bytes(700)), heap.place(bytes(200))
    heap.free(large)
    assert heap.sparse_files(4) == [], "it still takes more"
    for _ in range(5):
        heap.place(bytes(900))
    assert heap.sparse_files(4) == [small.file]
