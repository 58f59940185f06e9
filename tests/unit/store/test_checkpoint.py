"""One file of the checkpoint pair."""

from __future__ import annotations

from random import Random

import pytest

from dray.store.limits import CHECKPOINT_BUFFER_BYTES, CHECKPOINT_BYTES, SECTOR_BYTES
from dray.store.log import checkpoint
from dray.store.log.checkpoint import (
    NAMES,
    SEQUENCES,
    CheckpointState,
    Mark,
    Snapshots,
    SnapshotWriter,
    birth_mark,
    examine,
    is_cut,
    read_snapshot,
)
from dray.testing.disk import CrashEffect, SimDisk, SimFile

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


def test_a_snapshot_is_never_in_memory_twice_while_it_is_written(disk, monkeypatch):
    lengths = []
    write_it = SimFile.write

    def written(file, data, offset):
        lengths.append(len(data))
        write_it(file, data, offset)

    monkeypatch.setattr(SimFile, "write", written)
    write(disk, [bytes(CHECKPOINT_BUFFER_BYTES)] * 3)
    assert lengths == [CHECKPOINT_BUFFER_BYTES] * 3 + [SECTOR_BYTES]


def test_what_was_never_written_is_absent(disk):
    assert examine(disk, NAME) == (CheckpointState.ABSENT, None)
    disk.open(NAME, size=4096)
    assert examine(disk, NAME) == (CheckpointState.ABSENT, None)


def test_any_changed_byte_is_damage(disk):
    write(disk, [b"snapshot"])
    for offset in range(520):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage(NAME, offset, bytes([disk.image(NAME)[offset] ^ 1]))
        assert examine(copy, NAME) == (CheckpointState.DAMAGED, None)


def test_a_checkpoint_of_another_version_or_kind_is_damage(disk, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
        write(disk, [b"snapshot"])
    assert examine(disk, NAME) == (CheckpointState.DAMAGED, None)
    write(disk, [b"snapshot"])
    disk.open(SEQUENCES[0], size=disk.open(NAME).size()).write(disk.image(NAME), 0)
    assert examine(disk, SEQUENCES[0]) == (CheckpointState.DAMAGED, None)


def test_every_cut_is_damage(disk):
    write(disk, [b"snapshot"])
    told_apart_from_a_birth = 9
    for size in range(520):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.cut_off(NAME, size)
        seen = CheckpointState.ABSENT if size < told_apart_from_a_birth else CheckpointState.DAMAGED
        assert examine(copy, NAME) == (seen, None)


def test_a_cut_behind_the_snapshot_is_known_by_the_size_in_the_header(disk):
    write(disk, [bytes(3 * CHECKPOINT_BYTES)])
    _, grown = examine(disk, NAME)
    mark = write(disk, [b"smaller"])
    assert mark.size == grown.size == SECTOR_BYTES + 3 * CHECKPOINT_BYTES
    assert not is_cut(disk, NAME, mark)
    disk.cut_off(NAME, mark.size - 1)
    assert examine(disk, NAME) == (CheckpointState.VALID, mark)
    assert is_cut(disk, NAME, mark)


def test_one_that_was_made_and_not_written_is_unused(disk):
    disk.open(NAME, size=CHECKPOINT_BYTES).write(birth_mark(NAME), 0)
    assert examine(disk, NAME) == (CheckpointState.UNUSED, None)
    assert not is_cut(disk, NAME, None)


def test_a_birth_that_a_crash_tore_is_as_if_it_had_not_begun(disk):
    for size in range(72):
        disk.damage(disk.open(NAME, size=CHECKPOINT_BYTES).name, 0, bytes(SECTOR_BYTES))
        disk.open(NAME).write(birth_mark(NAME)[:size], 0)
        assert examine(disk, NAME)[0] in {CheckpointState.ABSENT, CheckpointState.UNUSED}


def test_any_changed_byte_of_an_unused_one_is_damage(disk):
    disk.open(NAME, size=CHECKPOINT_BYTES).write(birth_mark(NAME), 0)
    for offset in range(SECTOR_BYTES):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage(NAME, offset, bytes([disk.image(NAME)[offset] ^ 0x80]))
        assert examine(copy, NAME) == (CheckpointState.DAMAGED, None)


def test_a_half_overwritten_one_is_unfinished_until_it_has_its_new_header(disk):
    write(disk, [b"old snapshot"])
    writer = SnapshotWriter(disk.open(NAME))
    for _ in range(2):
        writer.write([b"new"])
        assert examine(disk, NAME) == (CheckpointState.UNFINISHED, None)
    mark = writer.finish(MARK)
    assert examine(disk, NAME) == (CheckpointState.VALID, mark)


def test_one_that_was_never_finished_is_unused_while_its_first_snapshot_is_written(disk):
    disk.open(NAME, size=CHECKPOINT_BYTES).write(birth_mark(NAME), 0)
    SnapshotWriter(disk.open(NAME)).write([b"new"])
    assert examine(disk, NAME) == (CheckpointState.UNUSED, None)


def test_any_changed_byte_in_the_header_of_an_unfinished_one_is_damage(disk):
    write(disk, [b"old snapshot"])
    SnapshotWriter(disk.open(NAME)).write([b"new"])
    for offset in range(SECTOR_BYTES):
        copy = disk.after_crash(CrashEffect.KEPT)
        copy.damage(NAME, offset, bytes([disk.image(NAME)[offset] ^ 1]))
        assert examine(copy, NAME) == (CheckpointState.DAMAGED, None)


def test_what_is_joined_for_a_backup_is_parted_again_and_cut_off_it_is_refused():
    whole = b"".join(Snapshots([b"state", b"more"], [b"one", b"two"]).joined())
    parted = Snapshots.parted(whole)
    assert (b"".join(parted.state), b"".join(parted.sequences)) == (b"statemore", b"onetwo")
    length = len(Snapshots([]).joined()[0])
    assert Snapshots.parted(whole[: length + 6]) == Snapshots([b""], [b"onetwo"])
    assert Snapshots.parted(bytes(length)) == Snapshots([b""], [b""])
    with pytest.raises(ValueError, match="it is cut off"):
        Snapshots.parted(whole[: length + 5])
    with pytest.raises(ValueError, match="it is too short"):
        Snapshots.parted(whole[: length - 1])
