"""Promises of `dray.folders.clearing`: only the version that was sent is removed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from dray.errors import InvalidConfiguration
from dray.folders.clearing import Clearing
from dray.folders.tree import FoundFile, Selection, Tree
from dray.model.platforms import is_linux


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "b").mkdir(parents=True)
    (root / "b/file").write_text("first")
    return root


def seen(root, path="b/file") -> FoundFile:
    found = Tree(root, Selection()).look_at(path)
    assert isinstance(found, FoundFile)
    return found


def names(root):
    return sorted(str(each.relative_to(root)) for each in root.rglob("*") if not each.is_dir())


def killed_after(stop, patched):
    """Let the first so many changes of names happen, and no other."""
    calls = 0

    def counted(original):
        def call(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls > stop:
                raise KeyboardInterrupt
            return original(*arguments, **named)

        return call

    for name in ("rename", "unlink", "link"):
        patched.setattr(os, name, counted(getattr(os, name)))


def test_the_version_that_was_sent_is_deleted(root):
    assert Clearing(root).clear(seen(root))
    assert names(root) == []


def test_it_is_moved_under_its_path(root, tmp_path):
    into = tmp_path / "done"
    clearing = Clearing(root, into)
    assert clearing.clear(seen(root))
    (root / "b/file").write_text("second")
    assert clearing.clear(seen(root))
    assert names(into) == ["b/file", "b/file (2)"]
    assert (into / "b/file").read_text() == "first"


@pytest.mark.parametrize("into", [None, "done"])
def test_a_newer_version_stays(root, tmp_path, into):
    old = seen(root)
    (root / "b/new").write_text("newer")
    (root / "b/new").replace(root / "b/file")
    assert not Clearing(root, into and tmp_path / into).clear(old)
    assert (root / "b/file").read_text() == "newer"
    assert names(root) == ["b/file"]


@pytest.mark.parametrize("into", [None, "done"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_folder_above_that_is_renamed_meanwhile_hides_no_file(root, tmp_path, into, step):
    steps = 0

    def renames(original):
        def call(*arguments, **named):
            nonlocal steps
            original(*arguments, **named)
            steps += 1
            if steps == step:
                (root / "b").replace(root / "c")

        return call

    file = seen(root)
    clearing = Clearing(root, into and tmp_path / into)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", renames(os.rename))
        for name in ("unlink", "link"):
            patched.setattr(os, name, renames(getattr(os, name)))
        assert clearing.clear(file)
    assert names(root) == []
    assert into is None or names(tmp_path / into) == ["b/file"]


def test_a_folder_in_the_place_of_the_file_stays(root):
    old = seen(root)
    (root / "b/file").unlink()
    (root / "b/file/within").mkdir(parents=True)
    assert not Clearing(root).clear(old)
    assert (root / "b/file/within").is_dir()


@pytest.mark.parametrize("into", [None, "done"])
def test_a_run_that_was_killed_half_way_is_gone_on_with(root, tmp_path, monkeypatch, into):
    """Killed after each of its changes of names, and called again."""
    for stop in range(1, 5):
        (root / "b/file").write_text("first")
        old = seen(root)
        clearing = Clearing(root, into and tmp_path / f"{into}{stop}")
        with monkeypatch.context() as patched:
            killed_after(stop, patched)
            with contextlib.suppress(KeyboardInterrupt):
                clearing.clear(old)
        assert clearing.clear(old)
        assert names(root) == []
        if into:
            assert names(tmp_path / f"{into}{stop}") == ["b/file"]


def test_a_mark_goes_with_its_file(root):
    (root / "b/file.done").write_text("")
    assert Clearing(root, ready_suffix=".done").clear(seen(root))
    assert names(root) == []


def test_a_file_that_is_gone_is_cleared(root):
    old = seen(root)
    (root / "b/file").unlink()
    assert Clearing(root).clear(old)


def test_another_file_system_is_refused_at_the_start(root):
    if os.stat("/dev/shm").st_dev == root.stat().st_dev:  # noqa: PTH116, S108
        pytest.skip("there is one file system only")
    with pytest.raises(InvalidConfiguration, match="on another file system"):
        Clearing(root, Path("/dev/shm"))  # noqa: S108


def test_a_name_as_long_as_a_file_system_takes_is_numbered_too(root, tmp_path):
    into = tmp_path / "done"
    for _ in range(2):
        (root / ("x" * 255)).write_text("x")
        assert Clearing(root, into).clear(seen(root, "x" * 255))
    assert names(into) == ["x" * 251 + " (2)", "x" * 255]


def test_a_file_that_cannot_be_moved_has_its_name_again(root, tmp_path):
    into = tmp_path / "done"
    clearing = Clearing(root, into)
    (into / "b").write_text("a file where a folder is to be")
    old = seen(root)
    with pytest.raises(OSError, match="b"):
        clearing.clear(old)
    assert names(root) == ["b/file"]
    (into / "b").unlink()
    assert clearing.clear(old)
    assert names(into) == ["b/file"]


@pytest.mark.parametrize("into", [None, "done"])
def test_a_run_that_was_killed_while_it_gave_a_name_back_leaves_no_second_name(
    root, tmp_path, monkeypatch, into
):
    clearing = Clearing(root, into and tmp_path / into)
    old = seen(root)
    with (root / "b/file").open("a"), monkeypatch.context() as patched:
        # It hides the file, gives it its name again, and does not remove the hidden one.
        killed_after(2, patched)
        with pytest.raises(KeyboardInterrupt):
            clearing.clear(old)
    assert len(names(root)) == 2
    assert clearing.clear(old)
    assert names(root) == []


@pytest.mark.skipif(not is_linux(), reason="only Linux tells who has a file open")
@pytest.mark.parametrize("into", [None, "done"])
def test_a_file_that_a_program_writes_to_has_its_name_again(root, tmp_path, into):
    clearing = Clearing(root, into and tmp_path / into)
    old = seen(root)
    with (root / "b/file").open("a") as writer:
        with pytest.raises(OSError, match="a program has it open for writing"):
            clearing.clear(old)
        assert names(root) == ["b/file"]
        writer.write(" and more")
    assert not clearing.clear(old)
    assert (root / "b/file").read_text() == "first and more"


def test_a_mark_goes_with_its_file_through_a_kill_and_that_of_a_newer_version_stays(
    root, monkeypatch
):
    clearing = Clearing(root, ready_suffix=".done")
    for newer in (False, True):
        for stop in range(1, 4):
            (root / "b/file").write_text("first")
            (root / "b/file.done").write_text("")
            old = seen(root)
            with monkeypatch.context() as patched:
                killed_after(stop, patched)
                with contextlib.suppress(KeyboardInterrupt):
                    clearing.clear(old)
            if newer:
                (root / "b/file").write_text("newer one")
                (root / "b/file.done").write_text("")
            clearing.clear(old)
            left = ["b/file", "b/file.done"] if newer else []
            assert names(root) == left, (newer, stop)
            for each in left:
                (root / each).unlink()
