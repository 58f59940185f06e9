"""One file of the checkpoint pair."""

from __future__ import annotations

from random import Random

import pytest

from dray.store.checkpoint import (
    NAMES,
    CheckpointState,
    Mark,
    SnapshotWriter,
    examine,
    read_snapshot,
)
from dray.store.limits import CHECKPOINT_BUFFER_BYTES
from dray.testing.disk import Fate, SimDisk

NAME = NAMES[0]
MARK = Mark(NAME, generation=5, lsn=512, facts=9, capacity=1 << 16, length=0, epoch=2, waiting=1)


@pytest.fixture
def disk():
    return SimDisk(Random(1))


def write(disk: SimDisk, pieces, mark: Mark = MARK) -> Mark:
    writer = SnapshotWriter(disk.open(NAME))
    writer.write(pieces)
    return writer.finish(mark)


@pytest.mark.parametrize("size", [0, 1, 1000, 2 * CHECKPOINT_BUFFER_BYTES + 5])
def test_a_snapshot_of_any_size_is_read_back(disk, size):
    snapshot = Random(2).randbytes(size)
    half = size // 2
    mark = write(disk, [snapshot[:half], b"", snapshot[half:]])
    assert mark.length == size
    assert examine(disk, NAME) == (CheckpointState.VALID, mark)
    assert read_snapshot(disk, mark) == snapshot


def test_a_piece_larger_than_the_buffer_is_written(disk):
    mark = write(disk, [b"x" * (CHECKPOINT_BUFFER_BYTES + 1), b"y"])
    assert read_snapshot(disk, mark)[-2:] == b"xy"


def test_what_was_never_written_is_absent(disk):
    assert examine(disk, NAME) == (CheckpointState.ABSENT, None)
    disk.open(NAME, size=4096)
    assert examine(disk, NAME) == (CheckpointState.ABSENT, None)


def test_any_changed_byte_is_damage(disk):
    write(disk, [b"snapshot"])
    for offset in [*range(60), *range(512, 520)]:
        copy = disk.after_crash(Fate.KEPT)
        copy.damage(NAME, offset, bytes([disk.image(NAME)[offset] ^ 1]))
        assert examine(copy, NAME) == (CheckpointState.DAMAGED, None)


def test_every_cut_is_damage(disk):
    write(disk, [b"snapshot"])
    for size in range(1, 520):
        copy = disk.after_crash(Fate.KEPT)
        copy.cut_off(NAME, size)
        assert examine(copy, NAME) == (CheckpointState.DAMAGED, None)
    disk.cut_off(NAME, 0)
    assert examine(disk, NAME) == (CheckpointState.ABSENT, None)


def test_a_half_overwritten_one_is_damage(disk):
    write(disk, [b"old snapshot"])
    SnapshotWriter(disk.open(NAME)).write([b"new"])
    assert examine(disk, NAME) == (CheckpointState.DAMAGED, None)
