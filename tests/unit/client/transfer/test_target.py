"""The file that is received: in order, followed by its digest, whole or not there."""

from __future__ import annotations

import errno
import os
import queue
import threading

import pytest
from blake3 import blake3

from dray.client.files import partial_file
from dray.client.files.partial_file import partial_of
from dray.client.transfer import target as target_module
from dray.client.transfer.reference import Fingerprint
from dray.client.transfer.target import (
    TargetFile,
    boot_id,
    is_there,
    whole_fragments,
)
from dray.errors import TargetUnwritable
from dray.transfer.events import Terms
from tests.integration.commands import until

WITHIN_S = 30
DATA = os.urandom(95)
TERMS = Terms(95, 10, 4)
DIGEST = Fingerprint("blake3", blake3(DATA).digest())


def begun(path, expected: int = 0, more_synced=lambda: None) -> TargetFile:
    return TargetFile(path, TERMS, "blake3", expected=expected, more_synced=more_synced)


def fill(file: TargetFile, start: int = 0, end: int = 10) -> None:
    for number in range(start, end):
        file.write(number, memoryview(DATA[number * 10 : number * 10 + 10]))


def test_a_file_appears_when_it_is_finished_and_not_before(tmp_path):
    path = tmp_path / "f"
    file = begun(path)
    fill(file)
    assert file.digest() == DIGEST
    assert not path.exists()
    file.finish()
    file.close()
    assert path.read_bytes() == DATA
    assert not partial_of(path).exists()


@pytest.mark.parametrize("appeared", ["file", "link", "other"])
def test_a_file_that_appears_at_the_path_meanwhile_is_not_replaced(tmp_path, appeared):
    path = tmp_path / "f"
    if appeared == "other":
        path.write_bytes(b"before")
    file = begun(path)
    fill(file)
    if appeared == "link":
        path.symlink_to("nowhere")
    else:
        other = tmp_path / "other"
        other.write_bytes(b"theirs")
        other.replace(path)
    with pytest.raises(TargetUnwritable, match="is not replaced: it was made or changed"):
        file.finish()
    file.close()
    assert path.is_symlink() if appeared == "link" else path.read_bytes() == b"theirs"
    assert partial_of(path).read_bytes() == DATA


@pytest.mark.parametrize("kernel", ["newest", "cannot"])
def test_a_file_that_appears_at_the_very_end_is_not_replaced(tmp_path, monkeypatch, kernel):
    path = tmp_path / "f"
    file = begun(path)
    fill(file)
    if kernel == "cannot":
        monkeypatch.setattr(partial_file, "_NO_REPLACE", 1 << 30)

    def appear(step):
        if step == "file-synced":
            path.write_bytes(b"theirs")

    monkeypatch.setattr("dray.client.files.steps.watch", appear)
    with pytest.raises(TargetUnwritable, match="is not replaced: it was made or changed"):
        file.finish()
    file.close()
    assert path.read_bytes() == b"theirs"
    assert partial_of(path).read_bytes() == DATA


def test_a_kernel_that_only_knows_renames_that_replace_names_a_file_all_the_same(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(partial_file, "_NO_REPLACE", 1 << 30)
    file = begun(tmp_path / "f")
    fill(file)
    file.finish()
    file.close()
    assert (tmp_path / "f").read_bytes() == DATA
    assert not partial_of(tmp_path / "f").exists()


def test_a_file_that_was_there_from_the_beginning_is_replaced(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"before")
    file = begun(path)
    fill(file)
    file.finish()
    file.close()
    assert path.read_bytes() == DATA


def test_what_is_there_is_gone_on_with_and_what_is_behind_it_is_cut(tmp_path):
    path = tmp_path / "f"
    partial_of(path).write_bytes(DATA[:60] + b"junk")
    file = begun(path, expected=6)
    fill(file, 6)
    assert file.digest() == DIGEST
    file.close()
    assert partial_of(path).read_bytes() == DATA


def test_started_over_the_digest_is_that_of_the_second_time(tmp_path):
    file = begun(tmp_path / "f")
    file.write(0, memoryview(b"spoilt...."))
    assert file.digest() != DIGEST
    file.start_over()
    fill(file)
    assert file.digest() == DIGEST
    file.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def soon_synced(monkeypatch):
    """Three fragments are enough to be synced, and six to be told of."""
    monkeypatch.setattr(partial_file, "_SYNC_BYTES", 30)
    monkeypatch.setattr(target_module, "NOTE_EVERY_BYTES", 60)


def test_what_is_synced_behind_the_writes_is_told_when_it_is_much(tmp_path, soon_synced):
    told = queue.Queue()
    file = begun(tmp_path / "f", more_synced=lambda: told.put(file.synced))
    fill(file, 0, 3)
    until(lambda: file.synced == 3)
    assert told.empty()
    fill(file, 3, 6)
    assert told.get(timeout=WITHIN_S) == 6
    file.close()


def test_what_was_synced_before_everything_was_dropped_does_not_count(
    tmp_path, soon_synced, monkeypatch
):
    begun_to_sync, go_on = threading.Event(), threading.Event()

    def slow(_descriptor):
        begun_to_sync.set()
        assert go_on.wait(WITHIN_S)

    monkeypatch.setattr(os, "fdatasync", slow)
    told = []
    file = begun(tmp_path / "f", more_synced=lambda: told.append(file.synced))
    fill(file, 0, 8)
    assert begun_to_sync.wait(WITHIN_S)
    file.start_over()
    go_on.set()
    file.close()
    assert (file.synced, told) == (0, [])


def test_a_sync_that_fails_behind_the_writes_is_raised_and_nothing_is_published(
    tmp_path, soon_synced, monkeypatch
):
    asked = threading.Event()

    def failing(_descriptor):
        asked.set()
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fdatasync", failing)
    file = begun(tmp_path / "f")

    def save():
        fill(file)
        assert asked.wait(WITHIN_S)
        file.finish()

    with pytest.raises(TargetUnwritable, match="the disk is gone"):
        save()
    file.close()
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("length", "synced", "same_boot", "there"),
    [(0, 0, True, 0), (34, 0, True, 3), (34, 2, False, 2), (34, 5, False, 3), (95, 0, True, 10)],
)
def test_how_much_counts_depends_on_whether_the_machine_has_run_on(
    *, tmp_path, length, synced, same_boot, there
):
    path = tmp_path / "f"
    partial_of(path).write_bytes(DATA[:length])
    boot = boot_id() if same_boot else "another"
    assert whole_fragments(path, TERMS, synced, boot) == there


def test_without_a_partial_file_nothing_is_there(tmp_path):
    assert whole_fragments(tmp_path / "f", TERMS, 5, boot_id()) == 0


def test_a_file_that_has_its_name_already_is_found_by_its_digest(tmp_path):
    path = tmp_path / "f"
    assert not is_there(path, TERMS, DIGEST)
    path.write_bytes(DATA)
    assert is_there(path, TERMS, DIGEST)
    path.write_bytes(DATA[:-1] + b"!" if DATA[-1:] != b"!" else DATA[:-1] + b"?")
    assert not is_there(path, TERMS, DIGEST)


def test_a_partial_file_beside_it_means_that_it_is_another_one(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(DATA)
    partial_of(path).touch()
    assert not is_there(path, TERMS, DIGEST)


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(TargetUnwritable, match="nowhere"):
        begun(tmp_path / "nowhere" / "f")


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TargetUnwritable, match="it is no regular file"):
        begun(tmp_path / "pipe")
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_closed_it_is_neither_finished_nor_hashed(tmp_path):
    file = begun(tmp_path / "f")
    fill(file)
    file.close()
    file.close()
    file.finish()
    assert not (tmp_path / "f").exists()


def test_a_file_that_others_cut_is_told(tmp_path, monkeypatch):
    more, hold = TargetFile._more, threading.Event()

    def late(target):
        assert hold.wait(WITHIN_S)
        return more(target)

    monkeypatch.setattr(TargetFile, "_more", late)
    file = begun(tmp_path / "f")
    fill(file)
    os.truncate(partial_of(tmp_path / "f"), 0)
    hold.set()
    with pytest.raises(TargetUnwritable, match="shorter"):
        file.digest()
    file.close()


def test_two_who_save_under_one_name_do_not_write_into_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(partial_file, "_LOCK_S", 0.0)
    path = tmp_path / "f"
    file = begun(path)
    fill(file)
    with pytest.raises(TargetUnwritable, match=r"somebody else is writing f\.partial"):
        begun(path)
    assert file.digest() == DIGEST
    file.finish()
    file.close()
    assert path.read_bytes() == DATA
    begun(path).discard()
    assert not partial_of(path).exists()


def test_what_is_dropped_after_it_has_its_name_takes_nothing_of_anothers(tmp_path):
    path = tmp_path / "f"
    file = begun(path)
    fill(file)
    file.finish()
    partial_of(path).write_bytes(b"of another")
    file.discard()
    assert partial_of(path).read_bytes() == b"of another"
    assert path.read_bytes() == DATA
