"""Promises of `dray.folders.tree`: each file is found once, and nothing outside of the folder."""

from __future__ import annotations

import inspect
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from dray.folders.patterns import Patterns
from dray.folders.tree import FoundFile, LeftOut, Selection, Tree


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    for name in ("b/c/deep", "b/first", "a", "z.done", "z", "b/.hidden", ".git/config"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def found(root: Path, below: str = "", **selection):
    tree = Tree(root, Selection(**selection))
    return [each.path for each in tree.walk(below) if isinstance(each, FoundFile)]


def left_out(root: Path, **selection):
    tree = Tree(root, Selection(**selection))
    return {each.path: each.reason for each in tree.walk() if isinstance(each, LeftOut)}


def test_files_come_folder_by_folder_in_the_order_of_names(root):
    assert found(root) == ["a", "b/c/deep", "b/first", "z", "z.done"]
    assert found(root, "b") == ["b/c/deep", "b/first"]


def test_hidden_names_are_taken_only_if_asked_for(root):
    assert {".git/config", "b/.hidden"} <= set(found(root, hidden=True))


def test_files_of_dray_itself_are_never_taken(root):
    (root / ".dray-1").write_text("half")
    (root / "b/.dray-0").mkdir()
    (root / "b/.dray-0/x").write_text("half")
    assert not [each for each in found(root, hidden=True) if ".dray" in each]


def test_a_file_has_the_marks_of_its_version(root):
    (file,) = Tree(root, Selection(Patterns(["/a"]))).walk()
    there = (root / "a").stat()
    assert file == FoundFile("a", 1, there.st_mtime_ns, there.st_ino, there.st_mode)
    assert file.properties.mode == 0o644


def test_fifos_sockets_and_broken_names_are_named_and_left_out(root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        assert left_out(root) == {"pipe": "it is a FIFO", "socket": "it is a socket"}


def test_links_are_left_out_unless_they_are_followed(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "in").symlink_to(root / "a")
    (root / "out").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "gone").symlink_to(root / "nothing")
    assert set(left_out(root)) == {"in", "out", "folder", "gone"}
    followed = left_out(root, follow_links=True)
    assert followed["out"] == "it is a symbolic link that leads out of the folder"
    assert followed["folder"] == "it is a symbolic link that leads out of the folder"
    assert "in" in found(root, follow_links=True)
    assert not [each for each in found(root, follow_links=True) if "secret" in each]


def test_a_circle_of_links_ends(root):
    (root / "b/up").symlink_to(root)
    assert found(root, follow_links=True).count("a") == 1
    assert left_out(root, follow_links=True) == {}


def test_links_to_folders_that_the_selection_leaves_out_are_not_named(root, tmp_path):
    for name in (".hidden-folder", "build", ".dray-1"):
        (root / name).symlink_to(tmp_path)
    patterns = Patterns(exclude=["/build/**"])
    assert left_out(root, patterns=patterns) == {}


def test_a_file_is_found_in_folders_deeper_than_calls_can_be(root):
    deepest = root.joinpath(*["f"] * 200)
    deepest.mkdir(parents=True)
    (deepest / "file").write_text("deep")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        paths = found(root)
    finally:
        sys.setrecursionlimit(limit)
    assert paths == ["a", "b/c/deep", "b/first", "f/" * 200 + "file", "z", "z.done"]


def test_a_file_is_ready_once_its_mark_is_there(root):
    assert found(root, ready_suffix=".done") == ["z"]


def test_folders_of_our_own_are_not_walked(root):
    assert found(root, not_below=((root / "b").resolve(),)) == ["a", "z", "z.done"]


def test_a_folder_that_vanishes_has_no_files(root):
    assert found(root, "nowhere") == []
    assert Tree(root, Selection()).look_at("b/nothing") is None
    assert Tree(root, Selection()).look_at("b") is None
    assert Tree(root, Selection()).look_at("a/b") is None


def test_a_name_that_is_no_text_is_found(root):
    (root / os.fsdecode(b"caf\xe9")).touch()
    assert os.fsdecode(b"caf\xe9") in found(root)


def test_a_file_that_changed_just_now_is_read_when_a_later_change_has_another_time(root):
    """Two changes within a tick of the kernel may leave a file with the same size and time."""
    tree = Tree(root, Selection())
    (root / "a").write_text("x")
    found = tree.look_at("a")
    with tree.body_of(found):
        assert time.time_ns() >= found.mtime_ns + 10_000_000


def test_folders_of_dray_itself_are_neither_walked_nor_looked_at(root):
    own = (root / "b").resolve()
    assert found(root, not_below=(own,)) == ["a", "z", "z.done"]
    tree = Tree(root, Selection(not_below=(own,)))
    assert list(tree.walk("b/c")) == []
    assert tree.look_at("b/first") is None
