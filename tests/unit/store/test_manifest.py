"""What the manifest notes, and what a comparison with it finds."""

from __future__ import annotations

import contextlib
import errno
import json
import os

import pytest

from dray.errors import StoreCorrupt
from dray.store.audit import AuditLog
from dray.store.manifest import (
    FileMark,
    Identity,
    Manifest,
    check_not_emptied,
    differences,
    differences_of_copy,
    identity_of,
    is_own_name,
    overwrite_manifest,
    read_manifest,
    replace_file,
    strangers_in,
    take_stock,
    verify_audit,
    was_moved,
    write_manifest,
)
from tests.cost import Costs

HERE = Identity("/here/storage", 1, 2)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "storage" / "lqs").mkdir(parents=True)
    return tmp_path


def test_every_file_is_noted_but_the_lock(data):
    storage = data / "storage"
    (storage / "lock").write_text("1")
    (storage / "lqs" / "a").write_text("text")
    (storage / "large").write_bytes(bytes(65_537))
    (storage / "small").write_bytes(bytes(65_536))
    (storage / "link").symlink_to("large")
    (storage / "round").symlink_to(storage, target_is_directory=True)
    os.utime(storage / "large", ns=(7, 7))
    stock = take_stock(data)
    assert list(stock) == ["large", "link", "lqs", "lqs/a", "round", "small"]
    assert stock["large"] == FileMark(65_537, 7, "")
    assert len(stock["lqs/a"].digest) == len(stock["small"].digest) == 64
    assert stock["lqs"].folder
    # A link is noted as itself, whatever it leads to.
    assert stock["link"] == FileMark(len("large"), (storage / "link").lstat().st_mtime_ns, "")


def test_what_strangers_made_is_found_without_reading_the_files_of_queues(data):
    storage = data / "storage"
    for number in range(100):
        (storage / "lqs" / f"{number:08x}.{number:08x}").write_text("a queue")
    for name in ("QMLog", "odd", "lqs/odd", "p0000001.mq"):
        (storage / name).write_text("text")
    (storage / "folder" / "deep").mkdir(parents=True)
    found, whole = Costs(), Costs()
    stock = whole.of("all", lambda: take_stock(data))
    strangers = found.of("strangers", lambda: strangers_in(data))
    assert strangers == {name: mark for name, mark in stock.items() if not is_own_name(name)}
    assert list(strangers) == ["folder", "folder/deep", "lqs/odd", "odd"]
    assert found.most < whole.most / 2


def test_differences_are_named_with_what_changed():
    before = {
        "gone": FileMark(1, 1),
        "longer": FileMark(1, 1),
        "other": FileMark(1, 1, "a"),
        "rewritten": FileMark(1, 1),
        "same": FileMark(1, 1),
    }
    now = {
        "longer": FileMark(2, 1),
        "new": FileMark(3, 1),
        "other": FileMark(1, 1, "b"),
        "rewritten": FileMark(1, 2),
        "same": FileMark(1, 1),
    }
    assert [tuple(each) for each in differences(before, now)] == [
        ("deleted", "gone", "it had 1 bytes"),
        ("edited", "longer", "it had 1 bytes and has 2"),
        ("added", "new", "3 bytes"),
        ("edited", "other", "its 1 bytes were changed"),
        ("edited", "rewritten", "its 1 bytes were written again"),
    ]


def test_times_of_change_that_a_copy_gave_are_one_difference():
    before = {
        "a": FileMark(1, 1, "a"),
        "b": FileMark(9, 1),
        "c": FileMark(1, 1, "c"),
        "d": FileMark(1, 1),
    }
    now = {
        "a": FileMark(1, 2, "a"),
        "b": FileMark(9, 2),
        "c": FileMark(1, 2, "?"),
        "d": FileMark(1, 1),
    }
    assert [tuple(each) for each in differences_of_copy(before, now)] == [
        ("edited", "storage", "2 files of the same size with another time of change"),
        ("edited", "c", "its 1 bytes were changed"),
    ]
    assert differences_of_copy(now, now) == []


@pytest.mark.parametrize(
    ("now", "how"),
    [
        (HERE, ""),
        (Identity(HERE.path, 9, 2), ""),
        (Identity("/there/storage", 1, 2), "renamed from /here/storage"),
        (Identity(HERE.path, 1, 9), "replaced the one"),
        (Identity("/there/storage", 9, 9), "moved from /here/storage"),
    ],
)
def test_a_folder_that_is_elsewhere_is_told_from_one_that_is_not(now, how):
    assert how in was_moved(HERE, now)
    assert bool(how) == bool(was_moved(HERE, now))


def test_a_folder_of_another_user_is_noted_without_its_content(data, monkeypatch):
    closed = data / "storage" / "lost+found"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path):
        if path == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert take_stock(data)["lost+found"] == FileMark(folder=True)
    closed = data / "storage"
    with pytest.raises(PermissionError):
        take_stock(data)


def test_an_old_place_into_which_nobody_can_look_keeps_no_store_from_its_start(
    data, tmp_path, monkeypatch
):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    here = identity_of(data)
    monkeypatch.setattr(os, "stat", refused)
    assert "moved from" in was_moved(Identity("/there/storage", 1, 2), here)


def test_a_copy_beside_its_original_is_told_as_such(data, tmp_path):
    (data / "storage" / "QMLog").touch()
    assert "copied from" in was_moved(identity_of(data), Identity("/there", 9, 9))


@pytest.mark.parametrize(
    "name",
    [
        "p0000001.mq", "r0000001.mq", "QMLog", "MQTrans.lg1", "MQInSeqs.lg2", "lqs", "quarantine",
        "lqs/00000010.8774014b", "lqs/00000010.8774014b.new", "quarantine/anything.1",
    ],
)  # fmt: skip
def test_these_names_a_manager_gives(name):
    assert is_own_name(name)


@pytest.mark.parametrize("name", ["notes.txt", "p1.mq", "lqs/notes", "QMLog~", "sub/QMLog"])
def test_these_names_it_never_gives(name):
    assert not is_own_name(name)


def test_a_manifest_comes_back_and_damage_is_no_manifest(data):
    assert read_manifest(data) is None
    manifest = Manifest(closed=True, identity=HERE, files={"a": FileMark(1, 2, "3")}, store=True)
    write_manifest(data, manifest)
    assert read_manifest(data) == manifest
    for other in (b"", b"{}", b"{}\n", b',"crc32c":"00000000"}\n'):
        (data / "manifest.json").write_bytes(other)
        with pytest.raises(ValueError, match="its checksum does not fit"):
            read_manifest(data)


@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_of_a_manifest_is_believed(data, bit):
    manifest = Manifest(
        closed=True, identity=HERE, files={"QMLog": FileMark(1, 2, "3")}, store=True
    )
    write_manifest(data, manifest)
    path = data / "manifest.json"
    whole = path.read_bytes()
    assert json.loads(whole)["files"] == {"QMLog": [1, 2, "3", False]}
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="its checksum does not fit"):
            read_manifest(data)


@pytest.mark.parametrize(
    ("act", "line", "sentence"),
    [
        (lambda lines: lines, 0, ""),
        (lambda lines: lines[:-1], 2, "the file had 2 entries, and has 1"),
        (lambda _: [], 1, "the file had 2 entries, and has 0"),
        (lambda lines: [lines[0], lines[1].replace("QMLog", "lqs")], 2, "the last entry is"),
        (lambda lines: [lines[1]], 1, "it does not follow"),
    ],
)
def test_an_audit_is_held_against_the_manifest(tmp_path, act, line, sentence):
    (tmp_path / "storage").mkdir()
    audit = AuditLog(tmp_path)
    for change in ("added", "edited"):
        audit.append(change, "QMLog", seen="running", now=0.0)
    audit.close()
    entries, digest = audit.head
    identity = identity_of(tmp_path)
    write_manifest(
        tmp_path,
        Manifest(
            closed=True,
            identity=identity,
            files={},
            store=False,
            audit_entries=entries,
            audit_digest=digest,
        ),
    )
    lines = audit.path.read_text().splitlines(keepends=True)
    audit.path.write_text("".join(act(lines)))
    report = verify_audit(tmp_path)
    assert (report.line, report.intact) == (line, not sentence)
    assert report.problem.startswith(sentence)


def test_a_manifest_is_overwritten_in_its_place_whole_and_durably(data, monkeypatch):
    long = Manifest(closed=True, identity=HERE, files={"a" * 100: FileMark(1)}, store=True)
    short = Manifest(closed=False, identity=HERE, files={}, store=True)
    write_manifest(data, long)
    inode = (data / "manifest.json").stat().st_ino
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(read_manifest(data)))
    for manifest in (short, long, short):
        overwrite_manifest(data, manifest)
        assert synced.pop() == manifest
        assert not synced
    assert (data / "manifest.json").stat().st_ino == inode, "no other file needs room"


@pytest.mark.parametrize("left", ["QMLog", "p0000001.mq", "MQTrans.lg1"])
def test_a_folder_with_a_file_of_a_store_was_not_emptied(left):
    check_not_emptied({"lqs": FileMark(folder=True), left: FileMark(1)})


@pytest.mark.parametrize("left", ["", "notes.txt", "lqs/00000010.8774014b", "quarantine/QMLog.1"])
def test_a_folder_without_any_file_of_a_store_was_emptied(left):
    now = {"lqs": FileMark(folder=True), "quarantine": FileMark(folder=True)}
    if left:
        now[left] = FileMark(1)
    with pytest.raises(StoreCorrupt, match="like every other file of the store") as refused:
        check_not_emptied(now)
    assert (refused.value.event, refused.value.file) == (2076, "QMLog")


def test_a_file_that_could_not_be_replaced_leaves_nothing_beside_it(tmp_path, monkeypatch):
    replace_file(tmp_path / "f", b"first")

    def no_room(_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="no room"):
        replace_file(tmp_path / "f", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"first"


def test_a_file_that_goes_while_stock_is_taken_is_left_out_and_the_others_stand(data, monkeypatch):
    storage = data / "storage"
    for name in ("a", "b", "c"):
        (storage / name).write_text(name)
    scandir = os.scandir

    def scanned(path):
        with scandir(path) as entries:
            found = list(entries)
        (storage / "b").unlink(missing_ok=True)
        return contextlib.nullcontext(found)

    monkeypatch.setattr(os, "scandir", scanned)
    assert sorted(take_stock(data)) == ["a", "c", "lqs"]
