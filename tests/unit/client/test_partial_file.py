"""A file that is there whole and durable, or not at all."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from dray.client import partial_file
from dray.client.partial_file import PartialFile
from dray.errors import TargetUnwritable
from dray.model.limits import MIB


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out"


def test_what_was_written_is_there_under_its_name_at_the_end_only(target):
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    file.write(memoryview(b"def"))
    assert not target.exists()
    file.finish()
    assert target.read_bytes() == b"abcdef"
    assert [each.name for each in target.parent.iterdir()] == ["out"]


def test_it_is_synced_while_it_grows_and_once_more_at_the_end(target, monkeypatch):
    synced, began = [], threading.Event()

    def fdatasync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        began.set()

    monkeypatch.setattr(partial_file.os, "fdatasync", fdatasync)
    file = PartialFile(target)
    file.grown(31 * MIB)
    assert not synced
    file.grown(MIB)
    assert began.wait(20)
    file.finish()
    assert synced == [target.stat().st_ino]


@pytest.mark.parametrize("told", ["as it grows", "at its end"])
def test_a_sync_that_failed_behind_is_told(target, monkeypatch, told):
    def fdatasync(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(partial_file.os, "fdatasync", fdatasync)
    file = PartialFile(target)
    file.grown(32 * MIB)

    def grow():
        while True:
            file.grown(32 * MIB)

    with pytest.raises(TargetUnwritable, match="Input/output error"):
        (file.finish if told == "at its end" else grow)()
    file.discard()
    assert not list(target.parent.iterdir())


def test_it_is_not_closed_while_a_sync_is_at_work_with_it(target, monkeypatch):
    go_on, closed = threading.Event(), []

    def fdatasync(descriptor):
        assert go_on.wait(20)
        closed.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(partial_file.os, "fdatasync", fdatasync)
    file = PartialFile(target)
    inode = os.fstat(file.descriptor).st_ino
    file.grown(32 * MIB)
    discarding = threading.Thread(target=file.discard)
    discarding.start()
    go_on.set()
    discarding.join()
    assert closed == [inode]


def test_what_somebody_cut_short_is_not_read_back(target):
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    room = memoryview(bytearray(4))
    with pytest.raises(TargetUnwritable, match="cut it short"):
        file.read_back(room, 0)
    file.read_back(room[:2], 1)
    assert bytes(room[:2]) == b"bc"
    file.discard()
