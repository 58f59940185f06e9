"""Where a store is while it is moved, and after it: each row of the table, at each of both ends."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from dray.errors import StoreError, StoreMoved
from dray.store.location import (
    MOVED_NAME,
    MOVING_NAME,
    Moved,
    Moving,
    check_location,
    refuse_if_moved,
)


@pytest.fixture
def old(tmp_path):
    (tmp_path / "old").mkdir()
    return tmp_path / "old"


@pytest.fixture
def new(tmp_path):
    (tmp_path / "new").mkdir()
    return tmp_path / "new"


def mark_moved(old: Path, new: Path, move: str = "a move") -> None:
    mark = Moved(to=str(new), move=move, when="today")
    (old / MOVED_NAME).write_bytes(msgspec.json.encode(mark))


def mark_moving(old: Path, new: Path, move: str = "a move") -> None:
    (new / MOVING_NAME).write_bytes(msgspec.json.encode(Moving(source=str(old), move=move)))


def test_a_store_that_nobody_moves_starts(old):
    check_location(old)
    refuse_if_moved(old)
    assert list(old.iterdir()) == []


def test_while_a_store_is_copied_it_starts_and_the_copy_is_refused(old, new):
    mark_moving(old, new)
    for look in (check_location, refuse_if_moved):
        look(old)
        with pytest.raises(StoreMoved, match="unfinished copy of the store") as refused:
            look(new)
        assert (refused.value.directory, refused.value.to) == (str(new), str(old))


def test_a_store_that_was_moved_is_refused_where_it_was_and_starts_where_it_is(old, new):
    mark_moving(old, new)
    mark_moved(old, new)
    for look in (check_location, refuse_if_moved):
        with pytest.raises(StoreMoved, match=r"was moved to .* \(today\)") as refused:
            look(old)
        assert (refused.value.directory, refused.value.to) == (str(old), str(new))
    refuse_if_moved(new)
    assert (new / MOVING_NAME).exists(), "who only reads changes nothing"
    check_location(new)
    assert list(new.iterdir()) == [], "the start has ended the move"
    check_location(new)


def test_the_mark_of_another_move_ends_no_move(old, new):
    mark_moving(old, new, "this move")
    mark_moved(old, new, "an earlier one")
    with pytest.raises(StoreMoved, match="unfinished copy of the store"):
        check_location(new)
    assert (new / MOVING_NAME).exists()


def test_the_end_of_a_move_is_durable(old, new, monkeypatch):
    mark_moving(old, new)
    mark_moved(old, new)
    synced = []

    def fsync(descriptor):
        folder = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((folder, list(folder.iterdir())))

    monkeypatch.setattr(os, "fsync", fsync)
    check_location(new)
    assert synced == [(new, [])]


def test_two_starts_may_end_one_move_at_the_same_time(old, new, monkeypatch):
    mark_moving(old, new)
    mark_moved(old, new)
    read_bytes = Path.read_bytes

    def read_slowly(path):
        image = read_bytes(path)
        if path == old / MOVED_NAME:
            # Meanwhile the other start has come to its end.
            (new / MOVING_NAME).unlink()
        return image

    monkeypatch.setattr(Path, "read_bytes", read_slowly)
    check_location(new)


@pytest.mark.parametrize("name", [MOVED_NAME, MOVING_NAME])
def test_a_mark_that_says_nothing_is_refused_and_stays(old, name):
    (old / name).write_bytes(b"{}")
    with pytest.raises(StoreMoved, match=f"{name}, which tells where the store is") as refused:
        check_location(old)
    assert (refused.value.directory, refused.value.to) == (str(old), "")
    assert (old / name).read_bytes() == b"{}"


def test_a_mark_that_this_user_may_not_read_is_an_error_and_no_move(old, monkeypatch):
    mark_moved(old, old)

    def may_not(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", may_not)
    with pytest.raises(StoreError, match="this user may not look for") as refused:
        check_location(old)
    assert not isinstance(refused.value, StoreMoved)
    assert refused.value.directory == str(old)
