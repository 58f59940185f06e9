"""Names in a folder are made durable by a sync of the folder, and of nothing else."""

import os

import pytest

from dray.fsync import sync_folder


def test_the_folder_itself_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    sync_folder(tmp_path)
    assert synced == [tmp_path.stat().st_ino]


def test_a_failure_is_told_and_leaves_no_descriptor(tmp_path, monkeypatch):
    opened = []

    def fail(descriptor):
        opened.append(descriptor)
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        sync_folder(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")
