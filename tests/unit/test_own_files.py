"""No planted file is opened or written, and no file of ours can be opened by others."""

import os
from pathlib import Path

import pytest

from dray.own_files import create_own, make_own_folder, open_own

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
