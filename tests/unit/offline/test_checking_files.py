"""What `dray check` says of a queue's file is what the next start does with it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from dray.daemon.watcher import AuditedDisk
from dray.errors import StoreError, StorePoisoned
from dray.model.queue import QueueOptions
from dray.offline.checking import check_store
from dray.store.log.checkpoint import PAIRS, SnapshotWriter, examine
from dray.store.lqs import FOLDER, file_name
from dray.store.real_disk import RealDisk
from dray.testing.harness import ManagerHarness, Sizes
from dray.wire import queue_frames

NAME = file_name(16, "\\private$\\orders")
SIZES = Sizes(heap_file_bytes=4096, log_bytes=1 << 17, queue_files=True)


def started(path: Path) -> ManagerHarness:
    return ManagerHarness(RealDisk(path), SIZES)


def stop(harness: ManagerHarness) -> None:
    harness.store.close(harness.manager.snapshot())


def restarted(path: Path) -> ManagerHarness:
    harness = started(path)
    stop(harness)
    return harness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a stopped manager with a queue `orders`."""
    harness = started(tmp_path)
    session, _ = harness.client()
    harness.ask(session, queue_frames.CreateQueue("orders", QueueOptions(label="as it was")))
    stop(harness)
    return tmp_path / "storage" / FOLDER


def edited(folder: Path, old: str, new: str) -> None:
    file = folder / NAME
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def said(path: Path) -> list[tuple[str, str, str, str]]:
    found = check_store(path).findings
    return [(each.severity, each.file, each.what, each.remedy) for each in found]


def test_a_checkpoint_that_a_kill_left_unfinished_is_noted_and_a_start_goes_on(
    tmp_path: Path, folder: Path
):
    restarted(tmp_path)
    disk = RealDisk(tmp_path)
    older = {min(pair, key=lambda name: examine(disk, name)[1].generation) for pair in PAIRS}
    for name in older:
        with closing(disk.open(name)) as file:
            SnapshotWriter(file).write([b"half of a snapshot"])
    disk.close()
    assert {file for _, file, *_ in said(tmp_path)} == older
    assert check_store(tmp_path).clean
    assert restarted(tmp_path).manager.files_report.quarantined == []
    assert said(tmp_path) == []


def test_an_edit_that_a_start_takes_over_is_noted_by_its_properties(tmp_path: Path, folder: Path):
    edited(folder, "Label=as it was", "Label=by hand")
    edited(folder, "\nQuota=none", "\nQuota=1MiB")
    assert said(tmp_path) == [
        ("note", f"{FOLDER}/{NAME}", "it was edited; a start takes over its Label, Quota", "")
    ]
    assert restarted(tmp_path).manager.files_report.taken_over == [NAME]


@pytest.mark.parametrize(
    ("old", "new"), [("Transaction=yes", "Transaction=no"), ("\nQuota=none", "\nQuota=plenty")]
)
def test_an_edit_that_a_start_moves_aside_is_damage(tmp_path: Path, folder: Path, old, new):
    edited(folder, old, new)
    ((severity, file, sentence, remedy),) = said(tmp_path)
    assert (severity, file) == ("damage", f"{FOLDER}/{NAME}")
    assert new.strip().partition("=")[0] in sentence
    assert remedy == "a start moves it to quarantine and writes it anew"
    assert restarted(tmp_path).manager.files_report.quarantined == [NAME]


def test_a_file_that_is_older_than_the_state_is_noted(tmp_path: Path, folder: Path):
    old = (folder / NAME).read_bytes()
    again = started(tmp_path)
    session, _ = again.client()
    again.ask(session, queue_frames.SetQuota("orders", 1 << 20, None))
    stop(again)
    (folder / NAME).write_bytes(old)
    assert said(tmp_path) == [
        ("note", f"{FOLDER}/{NAME}", "it is older than the state; a start writes it anew", "")
    ]


@pytest.mark.parametrize(
    ("name", "fate"),
    [
        ("notes.txt", "no queue has this file; a start moves it to quarantine"),
        (file_name(77, "nowhere"), "no queue has this file; a start moves it to quarantine"),
        (f"{NAME}.new", "a crash left it unfinished; a start removes it"),
    ],
)
def test_a_file_of_no_queue_is_noted_with_its_fate(tmp_path: Path, folder: Path, name, fate):
    (folder / name).write_text("x")
    assert said(tmp_path) == [("note", f"{FOLDER}/{name}", fate, "")]
    restarted(tmp_path)
    assert not (folder / name).exists()


def test_a_file_that_a_start_finishes_is_not_called_missing(tmp_path: Path, folder: Path):
    internal = next(folder.glob("00000002.*")).name
    (folder / internal).rename(folder / f"{internal}.new")
    what = f"a crash left it unfinished; a start gives it the name {internal}"
    assert said(tmp_path) == [("note", f"{FOLDER}/{internal}.new", what, "")]
    report = restarted(tmp_path).manager.files_report
    assert (report.missing, report.quarantined) == ([], [])


def linked(file: Path, elsewhere: Path) -> None:
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def named_twice(file: Path, elsewhere: Path) -> None:
    os.link(file, elsewhere)


def test_a_pipe_in_the_place_of_the_lock_is_damage_and_is_not_waited_for(
    tmp_path: Path, folder: Path
):
    (folder.parent / "lock").unlink()
    os.mkfifo(folder.parent / "lock")
    assert said(tmp_path)[0][:2] == ("damage", "lock")


@pytest.mark.parametrize("plant", [linked, named_twice])
@pytest.mark.parametrize("name", ["QMLog", "MQTrans.lg1", "MQInSeqs.lg2", "l0000001.mq", "lock"])
def test_a_file_that_a_start_would_not_open_is_damage(tmp_path: Path, folder: Path, name, plant):
    plant(folder.parent / name, tmp_path / "elsewhere")
    ((severity, file, _, remedy),) = said(tmp_path)
    assert (severity, file, remedy) == ("damage", name, "a start refuses until then")
    with pytest.raises(StoreError) as caught:
        started(tmp_path)
    assert not isinstance(caught.value, StorePoisoned)


@pytest.mark.parametrize("plant", [linked, named_twice])
def test_a_queue_file_that_a_start_would_not_open_goes_to_quarantine(
    tmp_path: Path, folder: Path, plant
):
    plant(folder / NAME, tmp_path / "elsewhere")
    ((severity, file, _, remedy),) = said(tmp_path)
    assert (severity, file) == ("damage", f"{FOLDER}/{NAME}")
    assert remedy == "a start moves it to quarantine and writes it anew"
    assert restarted(tmp_path).manager.files_report.quarantined == [NAME]


@pytest.mark.parametrize("name", ["quarantine", "../audit.jsonl", "../manifest.json"])
def test_something_else_in_the_place_of_a_file_or_a_folder_is_damage(
    tmp_path: Path, folder: Path, name
):
    place = folder.parent / name
    if name == "quarantine":
        place.write_text("x")
    elif name == "../audit.jsonl":
        place.symlink_to("elsewhere")
    else:
        place.mkdir()
    ((severity, file, _, remedy),) = said(tmp_path)
    assert (severity, file) == ("damage", Path(name).name)
    assert "a start refuses until then" in remedy
    with pytest.raises(StoreError):
        AuditedDisk(tmp_path).lock()
