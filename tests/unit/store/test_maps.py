"""The map of live blocks: a second opinion that is asked, and never trusted blindly."""

from __future__ import annotations

import struct
from random import Random

import pytest

from dray.errors import StoreFull
from dray.store.heap.heap_file import Extent
from dray.store.heap.maps import (
    MAP_NAMES,
    Disagreement,
    compare,
    encode_map,
    map_name,
    read_map,
)
from dray.store.kinds import Kind, file_name, heap_file_number
from dray.store.limits import BLOCK_BYTES
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import LOG_BYTES, Ledger

JOURNAL_FILE = heap_file_number(Kind.JOURNAL, 1)
BLOCKS = {1: b"\x0f", 7: b"\x00\x80", JOURNAL_FILE: b"\x01"}


@pytest.fixture
def disk():
    return SimDisk(Random(1))


def write(disk: SimDisk, generation: int) -> str:
    name = map_name(generation)
    disk.open(name).write(encode_map(generation, BLOCKS), 0)
    return name


@pytest.mark.parametrize("generation", [1, 2])
def test_a_map_is_read_back(disk, generation):
    write(disk, generation)
    assert read_map(disk, generation).blocks == BLOCKS
    assert read_map(disk, generation + 2).blocks is None
    assert read_map(disk, generation + 1).blocks is None


def test_a_map_that_was_allocated_only_is_none(disk):
    disk.open(MAP_NAMES[0], size=4096)
    assert read_map(disk, 2).blocks is None


def test_any_changed_byte_and_any_cut_is_noticed(disk):
    name = write(disk, 2)
    size = len(disk.image(name))
    for offset in [*range(36), *range(512, size)]:
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage(name, offset, bytes([disk.image(name)[offset] ^ 1]))
        assert read_map(copy, 2).blocks is None, offset
    for cut in range(0, size, 7):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.cut_off(name, cut)
        assert read_map(copy, 2).blocks is None


def test_only_live_blocks_that_the_map_does_not_have_disagree():
    assert compare("l", {1: b"\x0f"}, {1: b"\x07"}) == []
    (found,) = compare("l0000001.mq", {1: b"\x01"}, {1: b"\x07"})
    assert found == Disagreement("l0000001.mq", 1, 0b110)
    assert "2 blocks of p0000001.mq" in str(found)
    assert compare("l", {}, {2: b"\x01"}) == [Disagreement("l", 2, 1)]


@pytest.mark.parametrize(
    ("extent", "concerned"),
    [
        (Extent(1, 0, BLOCK_BYTES), False),
        (Extent(1, 0, BLOCK_BYTES + 1), True),
        (Extent(1, 3 * BLOCK_BYTES - 1, 5), True),
        (Extent(1, 3 * BLOCK_BYTES, 5), False),
        (Extent(1, BLOCK_BYTES, 0), False),
        (Extent(2, BLOCK_BYTES, 5), False),
    ],
)
def test_extents_in_those_blocks_are_concerned(extent, concerned):
    assert Disagreement("l", 1, 0b110).concerns(extent) is concerned


# ------------------------------------------------------------------------------ in recovery


def opened(disk: SimDisk) -> tuple[Store, Ledger]:
    ledger = Ledger()
    store = Store(disk, heap_file_bytes=64 << 10, log_bytes=LOG_BYTES)
    store.recover(ledger.load)
    return store, ledger


@pytest.fixture
def stopped(disk):
    store, ledger = opened(disk)
    for key in range(20):
        ledger.put(store, key, Random(key).randbytes(3000))
    ledger.end_turn(store)
    store.sync()
    for key in range(0, 20, 2):
        ledger.take(store, key)
    ledger.end_turn(store)
    store.sync()
    store.close(ledger.snapshot())
    return ledger


def test_after_an_orderly_stop_map_and_state_agree(disk, stopped):
    store, ledger = opened(disk)
    assert ledger.state() == stopped.state()
    assert store.report.disagreements == store.report.quarantined == store.report.damaged == ()


def tell_lies(disk: SimDisk, stopped: Ledger) -> tuple[str, Extent]:
    extent = stopped.pieces[5][0]
    name = map_name(1)
    blocks = read_map(disk, 1).blocks
    assert blocks is not None
    bits = bytearray(blocks[extent.file])
    bits[extent.offset // BLOCK_BYTES // 8] = 0
    disk.open(name).write(encode_map(1, {extent.file: bytes(bits)}), 0)
    return name, extent


def test_a_disagreement_is_reported_and_sound_messages_stay(disk, stopped):
    name, extent = tell_lies(disk, stopped)
    store, ledger = opened(disk)
    assert name in store.report.disagreements[0]
    assert file_name(extent.file) in store.report.disagreements[0]
    assert store.report.quarantined == ()
    assert store.report.verified_extents > 0
    ledger.check(store)


def test_a_disagreement_about_bytes_that_do_not_fit_puts_the_message_aside(disk, stopped):
    _, extent = tell_lies(disk, stopped)
    disk.damage(file_name(extent.file), extent.offset + 5, b"?!")
    store, ledger = opened(disk)
    assert store.report.quarantined == (extent,)
    assert ledger.state() == stopped.state()


def test_a_damaged_map_is_named_and_replaced(disk, stopped):
    disk.damage(map_name(1), 3, b"?")
    store, ledger = opened(disk)
    assert store.report.damaged == (map_name(1),)
    assert store.checkpoint_due
    store.checkpoint(ledger.snapshot())
    store.checkpoint(ledger.snapshot())
    store.close()
    assert opened(disk)[0].report.damaged == ()


def test_a_disk_too_full_for_a_map_does_without(disk):
    store, ledger = opened(disk)
    ledger.put(store, 1, b"x" * 3000)
    ledger.end_turn(store)
    store.sync()
    disk.cut_off(map_name(1), 0)
    disk.full_after(0)
    store.checkpoint(ledger.snapshot())
    store.close()
    disk.full_after(1 << 20)
    store, again = opened(disk)
    assert again.state() == ledger.state()
    assert store.report.damaged == (map_name(1),)


def test_what_is_placed_and_not_committed_is_in_the_map(disk):
    store, ledger = opened(disk)
    store.place(bytes(3000))
    store.checkpoint(ledger.snapshot())
    assert read_map(disk, 1).blocks == {1: b"\x3f"}
    disk.full_after(0)
    with pytest.raises(StoreFull) as raised:
        store.place(bytes(64 << 10))
    assert (raised.value.event, raised.value.file) == (2085, "p0000002.mq")


def test_the_beginning_of_a_map_stays_as_it_is():
    expected = b"DMAP", 1, 0, 9, BLOCK_BYTES, 1, 4 + 4 + 2
    image = bytes(encode_map(9, {7: b"\x00\x80"}))
    assert struct.unpack_from("<4sHHQIIQ", image) == expected
    assert image[-2:] == b"\x00\x80"
