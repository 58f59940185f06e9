"""What others do to the storage folder is audited, and what the manager does is not."""

from __future__ import annotations

import errno
import json
import os
import shutil
from functools import partial

import pytest

from dray.daemon import watcher
from dray.daemon.watcher import AuditedDisk, UnwatchedDisk
from dray.errors import StoreCorrupt, StoreError, StoreLocked
from dray.store.audit import AUDIT_NAME, read_entries
from dray.store.chain import verify_chain
from dray.store.manifest import MANIFEST_NAME, read_manifest
from dray.store.reading import ReadOnlyDisk
from dray.store.real_disk import OwnMarks
from dray.store.recovery.survey import survey
from dray.store.store import Store
from tests.unit.daemon.conftest import eventually


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def disk(data):
    disk = opened(data)
    yield disk
    disk.close()


def opened(data) -> AuditedDisk:
    disk = AuditedDisk(data)
    disk.lock()
    return disk


def told(data) -> list[tuple[str, str, str]]:
    assert verify_chain(data / AUDIT_NAME).intact
    return [(e.change, e.file, e.seen) for e in read_entries(data / AUDIT_NAME)]


def crashed(disk) -> None:
    """Let go of everything as a killed process does: nothing is noted."""
    guard, disk._guard = disk._guard, None
    guard._observer.stop()
    guard._observer.join()
    guard._audit.close()
    disk.close()


def test_a_name_that_comes_is_told(disk, data):
    (data / "storage" / "notes.txt").write_text("hello")
    eventually(lambda: ("added", "notes.txt", "running") in told(data))


def test_a_file_that_is_written_to_is_told(disk, data):
    log = disk.open("QMLog", size=100)
    log.write(b"x", 0)
    with (data / "storage" / "QMLog").open("r+b") as file:
        file.write(b"y")
    eventually(lambda: ("edited", "QMLog", "running") in told(data))
    log.close()


def test_a_file_in_the_place_of_a_folder_of_ours_is_refused_by_name(data):
    (data / "storage").mkdir(parents=True)
    (data / "storage" / "lqs").write_text("x")
    with pytest.raises(
        StoreError, match="cannot be watched for the audit: storage/lqs: File exists"
    ):
        opened(data)


def test_a_file_that_goes_is_told(disk, data):
    disk.open("p0000001.mq", size=10).close()
    (data / "storage" / "p0000001.mq").unlink()
    eventually(lambda: ("deleted", "p0000001.mq", "running") in told(data))


@pytest.mark.slow
def test_a_file_that_is_moved_is_told(disk, data):
    disk.open("lqs/00000010.00000000").close()
    folder = data / "storage" / "lqs"
    (folder / "00000010.00000000").rename(folder / "mine")
    eventually(lambda: ("moved", "lqs/00000010.00000000", "running") in told(data))
    (folder / "mine").rename(data / "mine")
    eventually(lambda: ("deleted", "lqs/mine", "running") in told(data))
    (data / "mine").rename(folder / "mine")
    eventually(lambda: ("added", "lqs/mine", "running") in told(data))


def test_a_name_that_is_no_utf8_is_told_and_ends_neither_the_audit_nor_the_store(data):
    disk = opened(data)
    (data / "storage" / os.fsdecode(b"caf\xe9")).write_text("hello")
    (data / "storage" / "after").write_text("hello")
    eventually(lambda: ("added", "after", "running") in told(data))
    disk.close()
    (data / "storage" / os.fsdecode(b"th\xe9")).write_text("hello")
    opened(data).close()
    opened(data).close()
    named = [each for each in told(data) if each[0] == "added" and "\\" in each[1]]
    assert named == [("added", r"caf\xe9", "running"), ("added", r"th\xe9", "start")]


def test_folders_are_told_too(disk, data):
    (data / "storage" / "backup").mkdir()
    eventually(lambda: ("added", "backup", "running") in told(data))
    shutil.rmtree(data / "storage" / "backup")
    eventually(lambda: ("deleted", "backup", "running") in told(data))


@pytest.mark.slow
def test_what_the_disk_does_itself_is_not_told(disk, data):
    kept = [disk.open(f"p{number:07d}.mq", size=4096) for number in range(20)]
    for turn in range(300):
        name = f"lqs/{turn:08x}.00000000"
        file = disk.open(f"{name}.new")
        file.write(b"text", 0)
        file.sync()
        file.close()
        disk.rename(f"{name}.new", name)
        kept[turn % 20].write(b"payload", turn)
        if turn % 3:
            disk.rename(name, "quarantine/x")
        else:
            disk.remove(name)
        disk.open("p0000001.mq").close()
    for file in kept:
        file.close()
    disk.close()
    assert told(data) == []
    opened(data).close()
    assert told(data) == []


@pytest.mark.slow
def test_files_on_a_file_server_that_gives_them_another_owner_are_no_alarm(data, monkeypatch):
    opened(data).close()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    disk = opened(data)
    for _ in range(3):
        disk.open("p0000001.mq", size=100).close()
    (data / "storage" / "notes.txt").touch()
    eventually(lambda: ("added", "notes.txt", "running") in told(data))
    disk.close()
    assert {file for _, file, _ in told(data)} == {"notes.txt"}


def test_files_that_are_opened_again_and_again_are_no_alarm(data):
    """More heap files than descriptors: each read closes one and opens another."""
    store = Store(AuditedDisk(data), heap_file_bytes=1 << 14, log_bytes=1 << 18)
    store.recover(lambda _history: [])
    for _ in range(2):
        extents = [store.place(bytes(16_000)) for _ in range(700)]
        store.append(b"fact")
        store.sync()
        for extent in (*extents, *reversed(extents)):
            store.read(extent)
        for extent in extents:
            store.release(extent)
        store.append(b"fact")
        store.sync()
        store.trim(700)
    assert store.counters.heap_files < 700
    store.close()
    assert told(data) == []
    opened(data).close()
    assert told(data) == []


def test_what_was_done_right_before_a_stop_is_told(data):
    disk = opened(data)
    (data / "storage" / "late").write_text("x")
    disk.close()
    assert ("added", "late", "running") in told(data)
    opened(data).close()
    assert len(told(data)) == 2


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda folder: (folder / "new").write_text("x"), ("added", "new", "start")),
        (lambda folder: (folder / "f").unlink(), ("deleted", "f", "start")),
        (lambda folder: (folder / "f").write_bytes(b"longer"), ("edited", "f", "start")),
        (lambda folder: same_size_and_time(folder / "f"), ("edited", "f", "start")),
        (lambda folder: os.utime(folder / "big", ns=(1, 1)), ("edited", "big", "start")),
        (lambda folder: (folder / "sub").mkdir(), ("added", "sub", "start")),
    ],
)
def test_what_was_done_while_it_was_stopped_is_told_at_the_start(data, act, expected):
    disk = opened(data)
    file = disk.open("f")
    file.write(b"abc", 0)
    file.close()
    disk.open("big", size=100_000).close()
    disk.close()
    act(data / "storage")
    opened(data).close()
    assert told(data) == [expected]
    opened(data).close()
    assert told(data) == [expected]


def same_size_and_time(path) -> None:
    times = path.stat().st_mtime_ns
    path.write_bytes(b"xyz")
    os.utime(path, ns=(times, times))


def test_a_crash_causes_no_false_alarms(data):
    disk = opened(data)
    disk.open("QMLog", size=100).close()
    disk.close()
    disk = opened(data)
    unclosed = [disk.open("QMLog"), disk.open("p0000001.mq", size=10)]
    unclosed[0].write(b"more", 0)
    disk.open("lqs/00000010.12345678").close()
    crashed(disk)
    for file in unclosed:
        os.close(file.descriptor())
    opened(data).close()
    assert told(data) == []


def test_after_a_crash_a_stranger_is_told_once(data):
    crashed(opened(data))
    (data / "storage" / "stranger").write_text("x")
    disk = opened(data)
    assert told(data) == [("added", "stranger", "start")]
    (data / "storage" / "other").write_text("x")
    eventually(lambda: ("edited", "other", "running") in told(data))
    before = told(data)
    crashed(disk)
    opened(data).close()
    assert told(data) == before


@pytest.mark.slow
def test_a_store_that_was_renamed_or_copied_by_hand_is_told(data, tmp_path):
    opened(data).close()
    moved = tmp_path / "moved"
    data.rename(moved)
    opened(moved).close()
    assert told(moved) == [("moved", "storage", "start")]
    (moved / "storage" / "QMLog").write_text("x")
    opened(moved).close()
    copied = tmp_path / "copied"
    shutil.copytree(moved, copied)
    opened(copied).close()
    entries = list(read_entries(copied / AUDIT_NAME))
    assert "copied from" in entries[-1].detail
    assert [entry.file for entry in entries[2:]] == ["storage"]
    again = tmp_path / "again"
    shutil.copytree(copied, again, copy_function=shutil.copyfile)
    opened(again).close()
    *_, moved, edited = read_entries(again / AUDIT_NAME)
    assert ("copied from" in moved.detail, moved.file, edited.file) == (True, "storage", "storage")
    assert "another time of change" in edited.detail


@pytest.mark.slow
def test_who_cuts_the_audit_or_takes_the_manifest_is_told(data):
    disk = opened(data)
    (data / "storage" / "x").write_text("x")
    disk.close()
    (data / AUDIT_NAME).write_text("")
    opened(data).close()
    assert told(data) == [("edited", AUDIT_NAME, "start")]
    (data / MANIFEST_NAME).unlink()
    opened(data).close()
    (data / MANIFEST_NAME).write_text("?")
    opened(data).close()
    (data / AUDIT_NAME).unlink()
    opened(data).close()
    assert told(data) == [("deleted", AUDIT_NAME, "start")]


@pytest.mark.parametrize("end", [AuditedDisk.close, crashed], ids=["stopped", "crashed"])
@pytest.mark.parametrize(
    ("act", "line"),
    [
        (lambda lines: [lines[0].replace("added", "edited"), *lines[1:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
    ],
    ids=["changed", "taken out", "in another order"],
)
def test_who_changes_the_audit_while_it_is_stopped_is_told_once(data, end, act, line):
    opened(data).close()
    for name in ("x", "y", "z"):
        (data / "storage" / name).write_text(name)
        opened(data).close()
    end(opened(data))
    path = data / AUDIT_NAME
    path.write_text("".join(act(path.read_text().splitlines(keepends=True))))
    for _ in range(2):
        opened(data).close()
        found = [each for each in read_entries(path) if each.file == AUDIT_NAME]
        sentences = [each.detail for each in found if each.detail.startswith(f"line {line}: ")]
        assert len(sentences) == 1
        assert {(each.change, each.seen) for each in found} == {("edited", "start")}


@pytest.mark.parametrize("end", ["stop", "crash", "crash of a later run", "crash without an audit"])
def test_an_emptied_folder_is_refused_until_it_is_back(data, tmp_path, end):
    """A disk that is not mounted is neither a deletion nor the birth of another manager."""
    disk = opened(data)
    disk.open("QMLog", size=10).close()
    disk.store_is_there()
    if end == "crash":
        crashed(disk)
    else:
        disk.close()
    if end == "crash of a later run":
        crashed(opened(data))
    elif end == "crash without an audit":
        unwatched = UnwatchedDisk(data)
        unwatched.lock()
        unwatched.close()
    (data / "storage" / "QMLog").rename(tmp_path / "QMLog")
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"event 2076: QMLog .* manifest\.json") as raised:
            opened(data)
        assert (raised.value.event, raised.value.file) == (2076, "QMLog")
    (tmp_path / "QMLog").rename(data / "storage" / "QMLog")
    opened(data).close()
    assert told(data) == []


def young_store(disk) -> Store:
    store = Store(disk, heap_file_bytes=1 << 14, log_bytes=1 << 18)
    store.recover(lambda _history: [])
    return store


@pytest.mark.parametrize("how", ["gone", "zeroed", "cut to nothing"])
@pytest.mark.parametrize("look", [AuditedDisk, UnwatchedDisk, ReadOnlyDisk])
def test_a_young_store_that_lost_its_log_is_not_taken_for_a_birth(data, how, look):
    """It has neither messages nor checkpoints yet: but queues, and an id that others know."""
    disk = AuditedDisk(data)
    store = young_store(disk)
    disk.store_is_there()
    store.append(b"a queue is made")
    store.sync()
    store.close()
    log = data / "storage" / "QMLog"
    image = log.read_bytes()
    if how == "gone":
        log.unlink()
    else:
        log.write_bytes(bytes(len(image)) if how == "zeroed" else b"")
    left = {path: path.read_bytes() for path in (data / "storage").glob("[MQ]*")}
    for _ in range(2):
        again = look(data)
        again.lock()
        with pytest.raises(StoreCorrupt, match=r"QMLog .*absent or blank.*manifest") as raised:
            survey(again)
        again.close()
        assert (raised.value.event, raised.value.file) == (2076, "QMLog")
    assert {path: path.read_bytes() for path in left} == left
    log.write_bytes(image)
    young_store(AuditedDisk(data)).close()
    log.unlink()
    (data / MANIFEST_NAME).unlink()
    young_store(AuditedDisk(data)).close()


def test_a_manager_that_was_killed_at_its_birth_is_born_again(data):
    crashed(opened(data))
    disk = opened(data)
    disk.open("QMLog", size=10).close()
    crashed(disk)
    (data / "storage" / "QMLog").unlink()
    opened(data).close()


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_on_a_full_disk_a_manager_starts_and_the_manifest_is_true(data, monkeypatch, end):
    disk = opened(data)
    disk.open("QMLog", size=10).close()
    disk.store_is_there()
    (disk.close if end == "stop" else partial(crashed, disk))()

    def no_room(*_):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as full:
        full.setattr(watcher, "write_manifest", no_room)
        crashed(opened(data))
    found = read_manifest(data)
    assert (found.closed, found.store, found.files) == (False, True, {})
    (data / "storage" / "QMLog").write_bytes(b"made by the manager, before its crash")
    opened(data).close()
    assert told(data) == []


def test_only_for_want_of_room_is_a_manifest_written_over(data, monkeypatch):
    opened(data).close()
    before = (data / MANIFEST_NAME).read_bytes()

    def failed(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(watcher, "write_manifest", failed)
    with pytest.raises(StoreError, match="cannot be watched for the audit"):
        opened(data)
    assert (data / MANIFEST_NAME).read_bytes() == before


def test_a_torn_entry_is_cut_and_told(data):
    disk = opened(data)
    (data / "storage" / "x").write_text("x")
    disk.close()
    disk = opened(data)
    crashed(disk)
    with (data / AUDIT_NAME).open("a") as file:
        file.write('{"number":')
    opened(data).close()
    assert told(data)[-1] == ("cut", AUDIT_NAME, "start")


def test_the_manifest_says_whether_a_manager_runs(data):
    disk = opened(data)
    assert json.loads((data / MANIFEST_NAME).read_text())["closed"] is False
    disk.close()
    assert json.loads((data / MANIFEST_NAME).read_text())["closed"] is True


def test_what_a_manager_without_an_audit_did_is_no_alarm_later(data):
    disk = opened(data)
    disk.open("QMLog", size=10).close()
    (data / "storage" / "known").write_text("x")
    disk.close()
    before = told(data)
    for _ in range(2):
        unwatched = UnwatchedDisk(data)
        unwatched.lock()
        file = unwatched.open("QMLog")
        file.write(b"mine", 0)
        file.close()
        unwatched.close()
    (data / "storage" / "unknown").write_text("x")
    opened(data).close()
    assert told(data) == [*before, ("added", "unknown", "start")]
    (data / MANIFEST_NAME).write_text("?")
    unwatched = UnwatchedDisk(data)
    unwatched.lock()
    unwatched.close()


def test_a_second_one_is_refused_and_changes_nothing(disk, data):
    before = (data / MANIFEST_NAME).read_bytes()
    with pytest.raises(StoreLocked):
        AuditedDisk(data).lock()
    assert (data / MANIFEST_NAME).read_bytes() == before
    disk.close()
    assert told(data) == []


def test_without_inotify_it_looks_from_time_to_time(data, monkeypatch):
    def none_left():
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(watcher, "InotifyObserver", none_left)
    monkeypatch.setattr(watcher, "POLL_S", 0.01)
    monkeypatch.setattr(watcher, "DRAIN_S", 0.01)
    disk = opened(data)
    disk.open("QMLog", size=10).close()
    (data / "storage" / "stranger").write_text("x")
    eventually(lambda: told(data) == [("added", "stranger", "running")])
    disk.close()


def test_an_audit_that_cannot_be_written_keeps_the_store_closed(data):
    opened(data).close()
    (data / AUDIT_NAME).unlink()
    (data / AUDIT_NAME).mkdir()
    disk = AuditedDisk(data)
    with pytest.raises(StoreError, match="audit"):
        disk.lock()
    (data / AUDIT_NAME).rmdir()
    opened(data).close()


def test_an_announcement_counts_once():
    marks = OwnMarks()
    marks.announce("comes", "a")
    marks.announce("comes", "a")
    assert [marks.take("comes", "a") for _ in range(3)] == [True, True, False]
    assert not marks.take("goes", "a")
