"""A store is moved whole, and at any moment exactly one of the two places is the store."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from dray.errors import StoreCorrupt, StoreError, StoreFull, StoreLocked, StoreMoved
from dray.offline import move as module
from dray.offline.move import StoreMove, move_store
from dray.store.audit import AUDIT_NAME, read_entries
from dray.store.chain import verify_chain
from dray.store.location import MOVED_NAME, MOVING_NAME
from dray.store.manifest import MANIFEST_NAME
from dray.store.reading import ReadOnlyDisk
from dray.store.real_disk import RealDisk
from dray.store.store import Store

NOW = 1_700_000_000.0


class EndedInTheMiddleError(Exception):
    """Whatever ends a process in the middle."""


def make_store(data: Path) -> None:
    store = open_store(data)
    for number in range(4):
        store.append(b"fact %d" % number)
        store.place(b"payload" * 1000)
    store.close([b"snapshot"])
    (data / "storage" / "lqs").mkdir(exist_ok=True)
    (data / "storage" / "lqs" / "00000010.12345678").write_text("text")


def open_store(data: Path) -> Store:
    store = Store(RealDisk(data), heap_file_bytes=1 << 16, log_bytes=1 << 16)
    store.recover(lambda _history: [])
    return store


def image(data: Path) -> dict[str, bytes]:
    storage = data / "storage"
    return {
        str(path.relative_to(storage)): path.read_bytes()
        for path in storage.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def silent(_what: str, _done: int, _total: int) -> None:
    """Show nothing."""


def a_move(old: Path, new: Path, name: str = "m1") -> StoreMove:
    return StoreMove(old, new, name, NOW)


@pytest.fixture
def old(tmp_path):
    make_store(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
def new(tmp_path):
    return tmp_path / "far" / "new"


def test_every_byte_arrives_and_the_old_place_says_where_it_went(old, new):
    before = image(old)
    report = move_store(a_move(old, new), silent)
    assert image(new) == before
    assert (report.files, report.bytes) == (len(before), sum(map(len, before.values())))
    with pytest.raises(StoreMoved, match=str(new)) as caught:
        RealDisk(old)
    assert caught.value.to == str(new)
    assert image(old) == {}
    open_store(new).close()
    (entry,) = read_entries(new / AUDIT_NAME)
    assert (entry.change, entry.seen, entry.time) == (
        "moved",
        "command",
        "2023-11-14T22:13:20.000Z",
    )
    assert verify_chain(new / AUDIT_NAME).intact


def test_times_of_change_arrive_too(old, new):
    times = {p.name: p.stat().st_mtime_ns for p in (old / "storage").glob("*MQ*")}
    move_store(a_move(old, new), silent)
    assert {p.name: p.stat().st_mtime_ns for p in (new / "storage").glob("*MQ*")} == times


def steps_of(old: Path, new: Path) -> int:
    seen = []
    move_store(a_move(old, new), lambda what, _done, _total: seen.append(what))
    return len(seen)


@pytest.mark.slow
def test_whenever_it_is_interrupted_exactly_one_place_is_the_store(tmp_path):
    make_store(tmp_path / "model")
    before = image(tmp_path / "model")
    steps = steps_of(tmp_path / "model", tmp_path / "there")
    assert steps > 8
    moments = set()
    for step in range(steps):
        old, new = tmp_path / f"old{step}", tmp_path / f"new{step}"
        make_store(old)
        before = image(old)
        left = step

        def interrupt(_what: str, _done: int, _total: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise EndedInTheMiddleError

        with pytest.raises(EndedInTheMiddleError):
            move_store(a_move(old, new), interrupt)
        moved = (old / MOVED_NAME).exists()
        moments.add(moved)
        if moved or new.exists():
            with pytest.raises(StoreMoved):
                RealDisk(old if moved else new)
        assert image(new if moved else old) == before
        move_store(a_move(old, new, "m2"), silent)
        with pytest.raises(StoreMoved):
            RealDisk(old)
        assert image(new) == before
        assert image(old) == {}
        assert not (new / MOVING_NAME).exists()
        open_store(new).close()
    assert moments == {False, True}


def test_a_start_in_the_new_place_ends_a_move_that_had_happened(old, new):
    def interrupt(what: str, _done: int, _total: int) -> None:
        if what == "ending":
            raise EndedInTheMiddleError

    with pytest.raises(EndedInTheMiddleError):
        move_store(a_move(old, new), interrupt)
    assert (new / MOVING_NAME).exists()
    open_store(new).close()
    assert not (new / MOVING_NAME).exists()
    assert move_store(a_move(old, new), silent).finished
    assert image(old) == {}


def test_what_changed_after_an_unfinished_copy_is_moved_too(old, new):
    def interrupt(what: str, _done: int, _total: int) -> None:
        if what == "noting":
            raise EndedInTheMiddleError

    with pytest.raises(EndedInTheMiddleError):
        move_store(a_move(old, new), interrupt)
    store = open_store(old)
    store.append(b"one more fact")
    store.close([b"another snapshot"])
    before = image(old)
    move_store(a_move(old, new), silent)
    assert image(new) == before


def test_it_comes_back_to_where_it_was(old, new):
    before = image(old)
    move_store(a_move(old, new), silent)
    move_store(a_move(new, old, "m2"), silent)
    assert image(old) == before
    with pytest.raises(StoreMoved):
        RealDisk(new)
    assert [entry.change for entry in read_entries(old / AUDIT_NAME)] == ["moved", "moved"]
    assert verify_chain(old / AUDIT_NAME).intact


def test_a_store_in_use_is_not_moved(old, new):
    disk = RealDisk(old)
    disk.lock()
    with pytest.raises(StoreLocked):
        move_store(a_move(old, new), silent)
    disk.close()
    assert not new.exists()


def test_who_waits_at_the_door_during_a_move_is_turned_away(old, new):
    waiting = RealDisk(old)
    move_store(a_move(old, new), silent)
    with pytest.raises(StoreMoved):
        waiting.lock()
    with pytest.raises(StoreMoved):
        ReadOnlyDisk(old)
    assert image(old) == {}


def test_it_is_moved_only_to_where_nothing_is(old, new, tmp_path):
    new.mkdir(parents=True)
    (new / "mine").write_text("x")
    with pytest.raises(StoreError, match="not empty"):
        move_store(a_move(old, new), silent)
    for inside in (old, old / "storage" / "deep", tmp_path):
        with pytest.raises(StoreError, match="overlap"):
            move_store(a_move(old, inside), silent)
    with pytest.raises(StoreError, match="no store"):
        move_store(a_move(tmp_path / "nothing", new), silent)
    make_store(tmp_path / "third")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / MOVING_NAME).write_text('{"source":"elsewhere","move":"m"}')
    with pytest.raises(StoreError, match="unfinished copy of elsewhere"):
        move_store(a_move(old, tmp_path / "unfinished"), silent)
    move_store(a_move(old, tmp_path / "good"), silent)
    with pytest.raises(StoreError, match="moved before"):
        move_store(a_move(old, tmp_path / "better"), silent)
    shutil.rmtree(tmp_path / "good")
    with pytest.raises(StoreError, match="none any more"):
        move_store(a_move(old, tmp_path / "good"), silent)


def test_a_bad_disk_is_noticed_and_the_old_place_stays_the_store(old, new, monkeypatch):
    before = image(old)
    real = module.crc32c
    calls = []

    def wrong(piece, crc):
        calls.append(1)
        return real(piece, crc) ^ (len(calls) == 5)

    monkeypatch.setattr(module, "crc32c", wrong)
    with pytest.raises(StoreCorrupt, match="may be bad"):
        move_store(a_move(old, new), silent)
    assert image(old) == before
    open_store(old).close()


def test_a_disk_too_small_is_noticed_before_anything_is_copied(old, new, monkeypatch):
    monkeypatch.setattr(
        module.shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(9, 9, 0)
    )
    with pytest.raises(StoreFull, match="room for 0"):
        move_store(a_move(old, new), silent)
    open_store(old).close()


def test_a_user_who_may_not_look_is_told_so_and_not_of_a_move(old, monkeypatch):
    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(StoreError, match=r"may not look for .*moved\.json: Perm") as caught:
        RealDisk(old)
    assert caught.value.code == StoreError.code


def test_marks_that_cannot_be_read_stop_everybody(old, new):
    (old / MOVED_NAME).write_text("?")
    with pytest.raises(StoreMoved, match="look into it"):
        RealDisk(old)
    (old / MOVED_NAME).unlink()
    (old / MANIFEST_NAME).write_text("?")
    move_store(a_move(old, new), silent)


def test_a_stranger_whose_name_is_no_utf8_moves_with_the_store(old, new):
    stranger = os.fsdecode(b"storage/lqs/caf\xe9")
    (old / stranger).write_text("not mine")
    move_store(a_move(old, new), silent)
    assert (new / stranger).read_text() == "not mine"
    assert not (old / stranger).exists()


@pytest.mark.parametrize("plant", [lambda path: path.symlink_to("QMLog"), os.mkfifo])
def test_a_move_names_what_it_cannot_copy_before_it_copies_anything(old, new, plant):
    plant(old / "storage" / "p0000009.mq")
    with pytest.raises(StoreError, match=r"p0000009\.mq is neither a file nor a folder"):
        move_store(a_move(old, new), silent)
    assert not new.exists()
    (old / "storage" / "p0000009.mq").unlink()
    move_store(a_move(old, new), silent)


def test_a_store_that_was_moved_twice_is_never_called_lost(old, new, tmp_path):
    move_store(a_move(old, new), silent)
    move_store(a_move(new, tmp_path / "third", "m2"), silent)
    with pytest.raises(StoreError, match=f"from there to {tmp_path / 'third'}; move it from there"):
        move_store(a_move(old, new, "m3"), silent)


def test_what_cannot_be_tidied_up_is_not_told_as_a_move_that_did_not_happen(old, new, monkeypatch):
    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "rmdir", refused)
    with pytest.raises(StoreError, match=r"^the move did not end: .*lqs: Permission"):
        move_store(a_move(old, new), silent)
    monkeypatch.undo()
    RealDisk(new)
    assert move_store(a_move(old, new), silent).finished
