"""The file of a backup stands whole under its name, and what killed backups left is removed."""

from __future__ import annotations

from pathlib import Path

from dray.client.awaited.backup import whole_or_absent
from dray.client.files.partial_file import hold

KILLED = ".nightly.dray.4711.0123abcd.part"


def backed_up(target: Path) -> None:
    with whole_or_absent(target) as file:
        file.write(b"archive")
    assert target.read_bytes() == b"archive"


def test_what_killed_backups_left_is_removed_by_the_next_one_to_the_same_path(tmp_path):
    """Each kill left a hidden file as long as the store, for ever."""
    (tmp_path / KILLED).write_bytes(b"half an archive")
    backed_up(tmp_path / "nightly.dray")
    assert [each.name for each in tmp_path.iterdir()] == ["nightly.dray"]


def test_a_backup_under_way_to_the_same_path_loses_nothing(tmp_path):
    target = tmp_path / "nightly.dray"
    with whole_or_absent(target) as first:
        first.write(b"first, ")
        backed_up(target)
        first.write(b"to its end")
    assert target.read_bytes() == b"first, to its end"
    assert [each.name for each in tmp_path.iterdir()] == ["nightly.dray"]


def test_files_that_only_look_alike_stay(tmp_path):
    others = {
        ".other.dray.4711.0123abcd.part", ".nightly.dray.part", ".nightly.dray.4711.part.txt",
        "nightly.dray.4711.0123abcd.part",
    }  # fmt: skip
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    backed_up(tmp_path / "nightly.dray")
    assert {each.name for each in tmp_path.iterdir()} == others | {"nightly.dray"}


def test_a_file_is_held_by_one_at_a_time(tmp_path):
    path = tmp_path / "held"
    with path.open("wb") as first, path.open("rb") as second:
        assert hold(first.fileno())
        assert not hold(second.fileno())
    with path.open("rb") as third:
        assert hold(third.fileno())
