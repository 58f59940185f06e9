"""A file that is there whole and durable, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from types import SimpleNamespace

import pytest

from dray.client.files import partial_file
from dray.client.files.partial_file import PartialFile, open_locked
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


def test_it_may_grow_under_a_name_that_its_owner_chose(target):
    file = PartialFile(target, partial=target.with_name(".hidden"))
    file.write(memoryview(b"abc"))
    assert [each.name for each in target.parent.iterdir()] == [".hidden"]
    file.finish(sync_name=False)
    assert [(each.name, each.read_bytes()) for each in target.parent.iterdir()] == [("out", b"abc")]


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


@pytest.mark.parametrize("sync", [True, False])
def test_its_owner_may_sync_it_himself(target, monkeypatch, sync):
    """Then nothing waits for the disk; by itself it is synced, then named, then its name is."""
    done, began = [], threading.Event()

    def seen(name):
        function = getattr(os, name)

        def called(descriptor):
            done.append((name, os.fstat(descriptor).st_ino, target.exists()))
            began.set()
            function(descriptor)

        monkeypatch.setattr(partial_file.os, name, called)

    for name in ("fdatasync", "fsync"):
        seen(name)
    file = PartialFile(target, sync=sync)
    file.write(memoryview(b"abc"))
    file.grown(32 * MIB)
    assert began.wait(20) if sync else file._syncing is None
    file.finish()
    inode, folder = target.stat().st_ino, target.parent.stat().st_ino
    expected = [("fdatasync", inode, False), ("fsync", inode, False), ("fsync", folder, True)]
    assert done == (expected if sync else [])
    assert target.read_bytes() == b"abc"


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


@pytest.mark.parametrize("other", [b"other", None], ids=["replaced", "removed"])
def test_a_file_that_somebody_has_put_in_its_place_does_not_get_its_name(target, other):
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    partial = target.with_name("out.partial")
    partial.rename(target.with_name("moved"))
    if other is not None:
        partial.write_bytes(other)
    with pytest.raises(TargetUnwritable, match=r"somebody removed or replaced out\.partial;"):
        file.finish()
    file.discard()
    assert not target.exists()
    assert other is None or partial.read_bytes() == other


def test_two_do_not_write_into_each_others_file(target, monkeypatch):
    monkeypatch.setattr(partial_file, "_LOCK_S", 0.0)
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    for resume in (False, True):
        with pytest.raises(TargetUnwritable, match="somebody else is writing"):
            PartialFile(target, resume=resume)
    file.finish()
    assert target.read_bytes() == b"abc"


@pytest.mark.parametrize("end", ["keep", "discard", "finish"])
def test_who_comes_meanwhile_waits_for_the_end_of_the_other(target, monkeypatch, end):
    """And has a file of its own then, whatever became of the one that it waited for."""
    waits = threading.Event()
    monkeypatch.setattr(partial_file, "_LOCK_S", 60.0)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: waits.set())
    monkeypatch.setattr(partial_file, "time", clock)
    first = PartialFile(target)
    first.write(memoryview(b"first"))
    found = []
    second = threading.Thread(target=lambda: found.append(PartialFile(target)))
    second.start()
    assert waits.wait(60)
    getattr(first, end)()
    second.join(60)
    found[0].write(memoryview(b"2nd"))
    assert (target.read_bytes() if target.exists() else b"") == (
        b"first" if end == "finish" else b""
    )
    found[0].finish()
    assert target.read_bytes() == b"2nd"
    assert [each.name for each in target.parent.iterdir()] == ["out"]


def test_a_file_that_is_still_lent_is_not_gone_on_with(target, monkeypatch):
    """Its writer has ended and a queue manager still copies into it."""
    monkeypatch.setattr(partial_file, "_LOCK_S", 0.0)
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    lent = os.dup(file.descriptor)
    file.keep()
    with pytest.raises(TargetUnwritable):
        PartialFile(target, resume=True)
    os.close(lent)
    file = PartialFile(target, resume=True)
    assert file.length() == 3
    file.discard()


def test_where_there_are_no_locks_it_goes_without(target, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    file = PartialFile(target)
    file.write(memoryview(b"abc"))
    file.finish()
    assert target.read_bytes() == b"abc"


def test_a_lock_that_fails_otherwise_is_told(target, monkeypatch):
    def flock(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(TargetUnwritable, match="Input/output error"):
        PartialFile(target)


def test_what_is_there_in_full_is_cut_or_gone_on_with(target):
    for resume, before in ((True, 3), (False, 0)):
        target.with_name("out.partial").write_bytes(b"abc")
        file = PartialFile(target, resume=resume)
        assert file.length() == before
        file.discard()


def test_a_planted_link_is_not_followed(target, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    target.with_name("out.partial").symlink_to(victim)
    with pytest.raises(TargetUnwritable, match="is a symbolic link, remove it"):
        PartialFile(target)
    assert victim.read_bytes() == b"precious"


def test_a_planted_pipe_is_not_waited_for(target):
    os.mkfifo(target.with_name("out.partial"))
    with pytest.raises(TargetUnwritable, match="is no regular file, remove it"):
        PartialFile(target)


def test_readers_of_a_shared_lock_keep_a_writer_out(target):
    first, knows_locks = open_locked(target, shared=True, wait_s=0)
    second, _ = open_locked(target, shared=True, wait_s=0)
    assert knows_locks
    with pytest.raises(BlockingIOError):
        open_locked(target, wait_s=0)
    os.close(first)
    os.close(second)
    os.close(open_locked(target, wait_s=0)[0])
