"""Received files are there whole or not at all, and never in place of another."""

import errno
import os

import pytest

from dray.cli.placing import directory, place
from dray.errors import InvalidConfiguration, LargeMessageCorrupt, TargetUnwritable


def test_a_file_gets_its_name_only_when_it_is_whole(tmp_path):
    def write(path):
        path.write_bytes(b"half")
        assert [found.name for found in tmp_path.iterdir()] == [path.name]
        assert path.name.startswith(".")
        path.write_bytes(b"whole")

    placed = place(tmp_path, "report.txt", "other", write)
    assert placed == tmp_path / "report.txt"
    assert placed.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [placed]


@pytest.mark.parametrize("sync", [True, False])
def test_file_and_name_are_synced_unless_nobody_wants_to_wait(tmp_path, monkeypatch, sync):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda at: synced.append(os.fstat(at).st_ino))
    placed = place(tmp_path, "report.txt", "other", lambda at: at.write_bytes(b"whole"), sync=sync)
    inodes = [placed.stat().st_ino, tmp_path.stat().st_ino]
    assert synced == (inodes if sync else [])


def test_a_name_that_is_taken_is_left_alone(tmp_path):
    (tmp_path / "report.txt").write_bytes(b"mine")
    placed = place(tmp_path, "report.txt", "other", lambda path: path.write_bytes(b"theirs"))
    assert placed.name == "report (2).txt"
    assert (tmp_path / "report.txt").read_bytes() == b"mine"


def test_a_label_cannot_choose_another_directory(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    placed = place(inside, "../../escaped", "other", lambda path: path.write_bytes(b""))
    assert placed.parent == inside


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    def write(path):
        path.write_bytes(b"half")
        raise LargeMessageCorrupt("the digest does not fit", sequence_id="x")

    with pytest.raises(LargeMessageCorrupt):
        place(tmp_path, "report.txt", "other", write)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_name(tmp_path):
    def write(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(TargetUnwritable, match="No space left on device; free room"):
        place(tmp_path, "report.txt", "other", write)


def test_a_directory_that_cannot_be_is_an_error_with_a_name(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidConfiguration, match="cannot be used as a directory"):
        directory(str(tmp_path / "file" / "below"))
