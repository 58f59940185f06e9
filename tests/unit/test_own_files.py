"""No planted file is opened or written, and no file of ours can be opened by others."""

import os
from pathlib import Path

import pytest

from dray.own_files import create_own, make_own_folder, open_own, replacing

DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def victim(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    return victim


def test_a_planted_symbolic_link_is_not_followed(tmp_path, victim):
    planted = tmp_path / "planted"
    planted.symlink_to(victim)
    with pytest.raises(OSError, match="planted is a symbolic link, remove it"):
        open_own(planted)
    os.close(create_own(planted))
    assert (victim.read_bytes(), planted.is_symlink()) == (b"precious", False)


def test_a_second_name_of_another_file_is_not_written(tmp_path, victim):
    planted = tmp_path / "planted"
    planted.hardlink_to(victim)
    with pytest.raises(OSError, match="planted is a second name of another file, remove it"):
        open_own(planted)
    os.close(create_own(planted))
    assert victim.read_bytes() == b"precious"


def test_a_planted_pipe_or_folder_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is no regular file, remove it"):
        open_own(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        open_own(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_written(victim):
    os.chown(victim, 12345, 12345)
    with pytest.raises(OSError, match="victim is a file of another user, remove it"):
        open_own(victim)


def test_a_refused_file_leaves_no_descriptor_and_no_name(tmp_path, victim):
    before = list(DESCRIPTORS.iterdir())
    (tmp_path / "planted").hardlink_to(victim)
    with pytest.raises(OSError, match="remove it"):
        open_own(tmp_path / "planted")
    assert len(list(DESCRIPTORS.iterdir())) == len(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["planted", "victim"]


def test_only_its_owner_can_open_a_file_or_folder_of_ours(tmp_path):
    before = os.umask(0)
    try:
        os.close(open_own(tmp_path / "opened"))
        os.close(create_own(tmp_path / "created"))
        make_own_folder(tmp_path / "folder")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"opened": 0o600, "created": 0o600, "folder": 0o700}


def test_a_file_is_replaced_only_once_the_new_one_is_whole(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"older")
    with replacing(path) as file:
        file.write(b"newer")
        file.flush()
        assert (path.read_bytes(), (tmp_path / "f.new").read_bytes()) == (b"older", b"newer")
    assert path.read_bytes() == b"newer"
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_the_older_file_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "f"
    path.write_bytes(b"older")

    with pytest.raises(error), replacing(path, tmp_path / "fresh") as file:  # noqa: PT012
        file.write(b"newer")
        raise error
    assert path.read_bytes() == b"older"
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_the_name_of_a_replaced_file_is_synced_after_its_bytes(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor):
        done.append(str((DESCRIPTORS / str(descriptor)).readlink()))
        fsync(descriptor)

    def renamed(self, target):
        done.append("renamed")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with replacing(tmp_path / "f") as file:
        file.write(b"bytes")
    assert done == [str(tmp_path / "f.new"), "renamed", str(tmp_path)]
