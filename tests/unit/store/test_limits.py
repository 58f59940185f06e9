"""What each bound of a store does, in figures: a store with the bounds that it is shipped with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from dray.errors import StoreFull, StorePoisoned
from dray.store.heap.heap import Heap
from dray.store.real_disk import RealDisk
from dray.store.store import Store
from dray.testing.disk import SimDisk, SimFile
from tests.unit.store.ledger import HEAP_BYTES, Ledger, small_store

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def store(disk):
    store = Store(disk)
    store.recover(Ledger().load)
    return store


@pytest.fixture
def writes(monkeypatch):
    """The lengths of all writes, and where the disk was told to begin, as None."""
    lengths: list[int | None] = []
    write = SimFile.write

    def written(file, data, offset):
        lengths.append(len(data))
        write(file, data, offset)

    monkeypatch.setattr(SimFile, "write", written)
    monkeypatch.setattr(SimFile, "begin_writing", lambda _: lengths.append(None))
    return lengths


def test_a_new_store_has_a_log_of_64_mib_files_of_4_mib_and_checkpoints_of_64_kib(disk, store):
    extent = store.place(bytes(4 * MIB))
    assert (extent.offset, extent.length) == (0, 4 * MIB)
    sizes = {name: len(disk.image(name)) for name in disk.names()}
    assert sizes["QMLog"] == 64 * MIB
    assert sizes["p0000001.mq"] == 4 * MIB
    assert {size for name, size in sizes.items() if name.startswith("MQ")} == {64 * KIB}
    assert store.counters.express_memory == 64 * MIB


def test_a_log_has_at_least_16_kib():
    Store(SimDisk(Random(1)), log_bytes=16 * KIB)
    with pytest.raises(AssertionError):
        Store(SimDisk(Random(1)), log_bytes=16 * KIB - 512)


def test_four_files_take_new_payload_and_then_the_fullest_takes_no_more(store):
    files = [store.place(bytes(size)).file for size in (4_000_000, *[2_500_000] * 3)]
    assert store.place(bytes(1000)).file == files[0], "where it leaves least"
    store.place(bytes(2_500_000))
    assert store.place(bytes(1000)).file != files[0]


def test_payload_of_a_mib_that_waits_for_its_sync_is_worth_one_beforehand(store):
    store.place(bytes(MIB - 1))
    assert store.flush_hint() == []
    store.place(b"x")
    assert len(store.flush_hint()) == 1


def test_no_more_than_64_files_are_synced_beforehand_at_a_time(disk):
    heap = Heap(disk, 1000)
    for _ in range(70):
        heap.place(bytes(1000))
    first = heap.hand_out()
    assert (len(first), heap.hand_out()) == (64, [])
    heap.hand_back(first[0])
    assert len(heap.hand_out()) == 1


def test_payload_is_written_a_mib_at_a_time_and_begun_with_from_256_kib_on(store, writes):
    store.place(bytes(256 * KIB - 1))
    assert writes == [256 * KIB - 1]
    writes.clear()
    store.place(bytes(256 * KIB))
    assert writes == [256 * KIB, None]
    writes.clear()
    store.place(bytes(2 * MIB + 1))
    assert writes == [MIB, None, MIB, None, 1, None]


def test_256_empty_files_are_kept_and_others_go_back(disk):
    store = small_store(disk)
    store.recover(Ledger().load)
    extents = [store.place(bytes(HEAP_BYTES)) for _ in range(270)]
    for extent in extents:
        store.discard(extent)
    store.trim(1000)
    kept = store.counters.free_heap_files
    assert kept == 256
    store.trim(1000)
    assert store.counters.free_heap_files == kept


@pytest.mark.slow
def test_256_files_stay_open_to_write_and_16_more_to_read(tmp_path):
    disk = RealDisk(tmp_path)
    heap = Heap(disk, 1000)
    numbers = []
    for _ in range(300):
        numbers.append(heap.place(bytes(1000)).file)
        heap.captured(heap.capture())
    assert open_files(tmp_path) == 256
    for number in numbers:
        heap.descriptor(number)
    assert open_files(tmp_path) == 256 + 16
    heap.close()
    disk.close()


def open_files(folder: Path) -> int:
    names = (f"/proc/self/fd/{each.name}" for each in Path("/proc/self/fd").iterdir())
    found = [Path(name).readlink() for name in names if Path(name).exists()]
    return sum(each.parent == folder / "storage" and each.suffix == ".mq" for each in found)


def test_zeros_are_written_ahead_of_the_log_64_kib_at_a_time(disk, writes):
    Store(disk).recover(Ledger().load)
    assert max(length for length in writes if length is not None) == 64 * KIB


def turns(store: Store, until: Callable[[], bool]) -> int:
    """How many groups of one sector are written until something is so."""
    for number in range(1, 1000):
        store.append(b"turn 1")
        store.sync()
        if until():
            return number
    raise AssertionError("never")


def test_a_checkpoint_is_due_for_each_third_of_the_log_and_after_a_refusal_for_a_16th(disk):
    store = Store(disk, log_bytes=48 * KIB)
    ledger = Ledger()
    store.recover(ledger.load)
    store.checkpoint(ledger.snapshot())
    assert turns(store, lambda: store.checkpoint_due) == 16 * KIB // 512
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.checkpoint([bytes(100 * KIB)])
    assert not store.checkpoint_due
    assert turns(store, lambda: store.checkpoint_due) == 3 * KIB // 512


@pytest.mark.parametrize(("beyond", "refusal"), [(0, StoreFull), (1, StorePoisoned)])
def test_a_sixteenth_of_the_log_takes_no_facts(disk, beyond, refusal):
    """The opening groups of starts, and seals, find room there."""
    store = Store(disk, log_bytes=MIB)
    store.recover(Ledger().load)
    header, length = 64, 4
    store.append(bytes(MIB * 15 // 16 - header - length + beyond))
    # Behind the opening group it fits no more now, but would in an empty log; or in none.
    with pytest.raises(refusal):
        store.begin_sync()


OPENING = 512
"""Bytes of the opening group of a start, which counts as facts that no checkpoint has."""


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_checkpoint_has_room_for_five_fourths_of_the_facts_and_16_kib_more(disk, store, beyond):
    free = 64 * KIB - 512
    facts = (free - 16 * KIB) * 4 // 5 - OPENING
    store.have_checkpoint_room(facts + beyond)
    assert (len(disk.image("MQTrans.lg1")) > 64 * KIB) == bool(beyond)


def test_a_checkpoint_grows_by_a_quarter_ahead_and_by_64_kib_at_least(disk, store):
    for facts, ahead in ((100_000, 64 * KIB), (1_000_000, None)):
        state = (facts + OPENING) * 5 // 4 + 16 * KIB
        store.have_checkpoint_room(facts)
        assert len(disk.image("MQTrans.lg1")) == 512 + state + (ahead or state // 4)


def test_a_start_follows_the_log_256_kib_at_a_time_and_looks_through_it_a_mib_at_a_time(
    disk, store, monkeypatch
):
    store.append(b"turn 1")
    store.sync()
    lengths = []
    read_into = SimFile.read_into

    def read(file, view, offset):
        if file.name == "QMLog":
            lengths.append(len(view))
        return read_into(file, view, offset)

    monkeypatch.setattr(SimFile, "read_into", read)
    Store(disk.kill()).recover(Ledger().load)
    pieces = {length for length in lengths if length >= KIB}
    assert pieces == {256 * KIB, MIB}
