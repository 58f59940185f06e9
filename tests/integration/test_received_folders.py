"""Promises of `dray.folders.receive`: each file is received once, and only below its folder."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import sys
import threading
from pathlib import Path

import pytest

import dray
import dray.folders
from dray.errors import TargetUnwritable
from dray.folders import FileNotReceived, FileReceived, placing, tree_target
from dray.folders.ledger_database import LedgerDatabase
from dray.folders.received_ledger import ReceivedLedger
from dray.folders.tree_target import LEDGER, TreeTarget
from tests.integration.commands import until
from tests.integration.folder_calls import error_of_full_disk, in_a_thread

pytestmark = pytest.mark.slow
OWN = (f".dray-{os.geteuid()}", f".dray-tree-{os.geteuid()}")
HIDDEN = f".dray-tree-{os.geteuid()}"
FILES = {"a": b"first", "b/c": b"", "b/d": b"x" * 5_000_000, "b/naïve": b"text"}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def large(queue):
    return dray.LargeMessageQueue(queue)


def put(large, path, body=b"body", *, mtime_ns=1_700_000_000_123_456_789, mode=0o640, label=None):
    """Send a file that never was on this disk; the sender may say anything of it."""
    properties = dray.FileProperties(path, len(body), mtime_ns, mode)
    return large.send(body, label=label or path[-100:], file=properties)


def tree_of(folder):
    """Path and content of each file below a folder, without those of Dray itself."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
        and not each.is_symlink()
        and not each.relative_to(folder).parts[0].startswith(OWN)
    }


def litter_in(folder):
    """What stands in the hidden folder beside the ledger."""
    return [each.name for each in (folder / HIDDEN).iterdir() if not each.name.startswith(LEDGER)]


def test_a_tree_that_was_sent_is_restored_with_times_and_modes(tmp_path, queue, out):
    folder = tmp_path / "folder"
    for name, body in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (folder / "a").chmod(0o4751)
    os.utime(folder / "a", ns=(1, 1_234_567_890_123_456_789))
    dray.folders.send(folder, queue)
    told = []
    received = dray.folders.receive(queue, out, follow=False, preserve=True, tell=told.append)
    assert received == (4, 5_000_009, 0)
    assert tree_of(out) == FILES
    restored = (out / "a").stat()
    assert restored.st_mtime_ns == 1_234_567_890_123_456_789
    assert stat.S_IMODE(restored.st_mode) == 0o751, (
        "nobody gets a program with rights by sending it"
    )
    assert sorted(each.path for each in told) == sorted(str(out / name) for name in FILES)
    assert litter_in(out) == []


def test_a_newer_version_from_the_same_source_takes_the_place_of_the_older_one(large, queue, out):
    put(large, "a", b"old")
    dray.folders.receive(queue, out, follow=False)
    put(large, "a", b"new")
    dray.folders.receive(queue, out, follow=False)
    assert tree_of(out) == {"a": b"new"}


def test_messages_without_a_file_are_two_files_though_their_labels_are_equal(
    manager, queue, large, out
):
    large.send(b"one", label="photo.jpg")
    large.send(b"two", label="photo.jpg")
    dray.folders.receive(queue, out, follow=False)
    large.send(b"three", label="photo.jpg")
    with large.receive(1) as message:
        target = TreeTarget(out)
        target.place(message)
        target.close()
        message.close()
    assert dray.folders.receive(queue, out, follow=False).files == 1, "it comes again"
    assert tree_of(out) == {
        "photo.jpg": b"one",
        "photo (2).jpg": b"two",
        "photo (3).jpg": b"three",
    }


@pytest.mark.parametrize("tree", [True, False], ids=["tree", "flat"])
def test_for_an_equal_label_not_all_numbers_are_tried_again(
    queue, large, out, *, monkeypatch, tree
):
    tried = []
    for module, name in ((tree_target, "short_numbered"), (placing, "numbered")):
        original = getattr(module, name)

        def numbered(label, count, original=original):
            tried.append(count)
            return original(label, count)

        monkeypatch.setattr(module, name, numbered)
    for _ in range(20):
        large.send(b"body", label="photo.jpg")
    assert dray.folders.receive(queue, out, follow=False, tree=tree).files == 20
    assert sorted(tree_of(out)) == sorted(
        "photo.jpg" if count == 1 else f"photo ({count}).jpg" for count in range(1, 21)
    )
    assert len(tried) < 45, "two for each, and not one for each file that is there"


@pytest.mark.parametrize(
    ("on_conflict", "expected", "left"),
    [
        ("number", {"a": b"mine", "a (2)": b"theirs"}, 0),
        ("replace", {"a": b"theirs"}, 0),
        ("skip", {"a": b"mine"}, 0),
        ("fail", {"a": b"mine"}, 1),
    ],
)
def test_a_file_of_somebody_else_is_numbered_replaced_skipped_or_refused(
    manager, queue, large, out, *, on_conflict, expected, left
):
    out.mkdir()
    (out / "a").write_bytes(b"mine")
    put(large, "a", b"theirs")
    told = []
    received = dray.folders.receive(
        queue, out, follow=False, on_conflict=on_conflict, retries=1, tell=told.append
    )
    assert tree_of(out) == expected
    assert received.failed == left
    assert bool(manager.queue(f"{queue.name};poison").info().message_count) == bool(left)
    if on_conflict == "skip":
        assert told[0].skipped == "another file has its name"
    if on_conflict == "fail":
        assert isinstance(told[-1].error, dray.FileRefused)


def test_a_newer_version_of_a_numbered_file_replaces_the_numbered_one(queue, large, out):
    out.mkdir()
    (out / "a.txt").write_bytes(b"mine")
    for body in (b"1", b"2"):
        put(large, "a.txt", body)
        dray.folders.receive(queue, out, follow=False)
    assert tree_of(out) == {"a.txt": b"mine", "a (2).txt": b"2"}


def test_a_file_that_somebody_has_changed_is_a_conflict(queue, large, out):
    put(large, "a", b"sent")
    dray.folders.receive(queue, out, follow=False)
    (out / "a").write_bytes(b"changed here")
    put(large, "a", b"sent again")
    dray.folders.receive(queue, out, follow=False)
    assert tree_of(out) == {"a": b"changed here", "a (2)": b"sent again"}


HOSTILE = [
    "../escaped", "a/../../escaped", "..", ".", "a/./b", "/etc/escaped", "//escaped", "a//b", "a/",
    "", "nul\0byte", "x" * 256, "d/" + "é" * 128, "/".join(["deep"] * 1_100), ".dray-tree-0/x",
    f"{HIDDEN}/{LEDGER}", "a/.dray-x",
]  # fmt: skip
"""Paths that are refused, whatever stands on the disk."""
HARMLESS = [
    "con", "aux.txt", "a:b", "trailing.", "trailing ", "C:\\windows\\escaped", "..\\..\\escaped",
    "a\nb", "a\x1b[2Jb", "~", "-rf", "x" * 255, "a\udcffb", "...", ".hidden/file", '*?<>|"',
]  # fmt: skip
"""Names that mean something elsewhere, and here are names of files like any other."""


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_is_refused_and_its_message_set_aside(tmp_path, manager, queue, path):
    out = tmp_path / "out"
    hostile(queue, path)
    told = []
    received = dray.folders.receive(
        queue, out, follow=False, retries=0, then="move", tell=told.append
    )
    assert (received.files, received.failed) == (0, 1)
    assert isinstance(told[0].error, dray.FileRefused), told
    assert tree_of(out) == {}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]
    assert manager.queue(f"{queue.name};poison").info().message_count == 3


@pytest.mark.parametrize("path", HARMLESS)
def test_a_name_that_is_strange_elsewhere_is_restored_as_it_is(queue, out, path):
    hostile(queue, path)
    dray.folders.receive(queue, out, follow=False)
    assert tree_of(out) == {path: b"body"}


def hostile(queue, path):
    """Send what no honest client sends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dray.large.split.encode_file",
            lambda file: (path.encode("utf-8", "surrogateescape"), file.size, file.mtime_ns, 0o644),
        )
        dray.LargeMessageQueue(queue).send(
            b"body", file=dray.FileProperties("x", 4, 0, 0o644), label="x"
        )


@pytest.mark.parametrize("where", ["folder", "file", "middle"])
def test_no_link_in_the_tree_is_followed(tmp_path, queue, out, where):
    large = dray.LargeMessageQueue(queue)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"theirs")
    out.mkdir()
    path = {"folder": "link/new", "file": "link", "middle": "a/link/b/new"}[where]
    link = out / {"folder": "link", "file": "link", "middle": "a/link"}[where]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "kept" if where == "file" else outside)
    put(large, path)
    received = dray.folders.receive(queue, out, follow=False, on_conflict="replace", retries=0)
    assert {each.name: each.read_bytes() for each in outside.iterdir()} == {"kept": b"theirs"}
    if where == "file":
        # The link itself gives way.
        assert (received.files, link.is_symlink(), link.read_bytes()) == (1, False, b"body")
    else:
        assert (received.files, received.failed) == (0, 1)


def test_names_that_differ_in_case_only_are_two_files_and_none_is_lost(queue, large, out):
    put(large, "Readme", b"1")
    put(large, "README", b"2")
    dray.folders.receive(queue, out, follow=False)
    assert sorted(tree_of(out).values()) == [b"1", b"2"]


def test_a_file_in_the_way_of_a_folder_refuses_its_files(manager, queue, large, out):
    put(large, "a", b"file")
    put(large, "a/b", b"below")
    received = dray.folders.receive(queue, out, follow=False, retries=0)
    assert (received.files, received.failed) == (1, 1)
    assert tree_of(out) == {"a": b"file"}


def test_a_message_that_comes_again_keeps_the_file_that_it_has(queue, large, out):
    put(large, "a")
    place_some = TreeTarget.place_some
    seen = []

    def place_and_fail(self, messages):
        seen.append(place_some(self, messages))
        if len(seen) < 3:
            return [ValueError("after the file was placed")]
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dray.folders.tree_target.TreeTarget.place_some", place_and_fail)
        dray.folders.receive(queue, out, follow=False)
    assert len(seen) == 3
    assert tree_of(out) == {"a": b"body"}


@pytest.mark.parametrize("fault", ["conflict", "path", "disk"])
def test_a_file_that_fails_drags_none_of_those_that_came_with_it(
    manager, queue, large, out, *, monkeypatch, fault
):
    """Together means: one request, one sync, and a transaction for each."""
    out.mkdir()
    (out / "3").write_bytes(b"mine")
    with manager.transaction() as transaction:
        for number in range(6):
            path = "../3" if (number, fault) == (3, "path") else str(number)
            body = b"%d" % number
            file = dray.FileProperties("3", len(body), 0)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    "dray.large.split.encode_file",
                    lambda file, path=path: (path.encode(), file.size, file.mtime_ns, 0o644),
                )
                large.send(body, label="x", file=file, transaction=transaction)
    together, place_some, link, full = [], TreeTarget.place_some, os.link, []

    def counted(self, messages):
        together.append(len(messages))
        return place_some(self, messages)

    def linked(source, name, **named):
        if fault == "disk" and name == "3 (2)" and not full:
            full.append(OSError(28, "No space left on device"))
            raise full[0]
        link(source, name, **named)

    monkeypatch.setattr("dray.folders.tree_target.TreeTarget.place_some", counted)
    monkeypatch.setattr("dray.client.awaited.receiver.BACKOFF_S", (0.01, 0.01))
    monkeypatch.setattr(os, "link", linked)
    on_conflict = "fail" if fault == "conflict" else "number"
    failures = 0 if fault == "disk" else 1
    with receiving(queue, out, tree=True, on_conflict=on_conflict, retries=0) as told:
        until(lambda: len(told) == 6)
    expected = {str(number): b"%d" % number for number in range(6)} | {"3": b"mine"}
    if fault == "disk":
        expected["3 (2)"] = b"3"
    assert tree_of(out) == expected
    assert together[0] == 6
    assert sum(isinstance(each, FileNotReceived) for each in told) == failures
    assert manager.queue(f"{queue.name};poison").info().large_count == failures
    assert litter_in(out) == []


def test_versions_of_one_file_that_come_together_end_as_the_newest(manager, queue, large, out):
    with manager.transaction() as transaction:
        for body in (b"1", b"2", b"3"):
            file = dray.FileProperties("a", 1, 0)
            large.send(body, label="a", file=file, transaction=transaction)
    dray.folders.receive(queue, out, follow=False)
    assert tree_of(out) == {"a": b"3"}
    assert litter_in(out) == []


def test_two_processes_do_not_receive_into_one_tree(queue, out):
    target = TreeTarget(out)
    with pytest.raises(dray.StoreLocked):
        dray.folders.receive(queue, out, follow=False)
    target.close()


@pytest.mark.parametrize("tree", [True, False])
def test_a_command_runs_for_each_file_and_decides_about_its_message(
    manager, queue, out, tmp_path, *, tree
):
    large = dray.LargeMessageQueue(queue)
    put(large, "good file")
    put(large, "bad")
    log = tmp_path / "log"
    script = (
        "import pathlib, sys; path = pathlib.Path(sys.argv[1]);"
        f" pathlib.Path({str(log)!r}).open('a').write(path.name + '\\n');"
        " sys.exit(path.name == 'bad')"
    )
    told = []
    received = dray.folders.receive(
        queue,
        out,
        tree=tree,
        follow=False,
        command=[sys.executable, "-c", script, "{path}"],
        retries=2,
        tell=told.append,
    )
    assert (received.files, received.failed) == (1, 1)
    assert log.read_text().split("\n") == ["good file", "bad", "bad", "bad", ""]
    assert tree_of(out) == {"good file": b"body", "bad": b"body"}, "the file stays"
    assert manager.queue(f"{queue.name};poison").info().message_count == 3
    assert isinstance(told[-1].error, dray.CommandFailed)
    assert [type(each) for each in told].count(FileNotReceived) == 3


def test_a_call_without_follow_ends_with_its_event_too(queue, large, out):
    for number in range(3):
        put(large, str(number))
    stop = threading.Event()
    stop.set()
    assert dray.folders.receive(queue, out, follow=False, stop=stop) == (0, 0, 0)
    assert dray.folders.receive(queue, out, follow=False, count=2).files == 2
    assert large.peek(0).label == "2"


def receiving(queue, out, **options):
    return in_a_thread(dray.folders.receive, queue, out, **options)


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("workers", [1, 4])
def test_with_an_event_it_receives_whatever_comes_until_the_event_is_set(
    queue, large, out, *, tree, workers
):
    with receiving(queue, out, tree=tree, workers=workers) as told:
        for number in range(20):
            put(large, f"file {number}", b"%d" % number)
        until(lambda: sum(isinstance(each, FileReceived) for each in told) == 20)
    assert tree_of(out) == {f"file {number}": b"%d" % number for number in range(20)}


@pytest.mark.parametrize("where", ["link", "ledger"])
def test_a_full_disk_is_waited_for_with_two_lines_and_costs_no_message_its_tries(
    queue, out, *, monkeypatch, caplog, where
):
    monkeypatch.setattr("dray.client.awaited.receiver.BACKOFF_S", (0.01, 0.01))
    link, begin, failures = os.link, ReceivedLedger.begin, []

    def full(error):
        if len(failures) < 8:
            failures.append(error)
            raise error

    def linked(*arguments, **named):
        full(OSError(28, "No space left on device"))
        return link(*arguments, **named)

    def begun(*arguments):
        full(sqlite3.OperationalError("database or disk is full"))
        return begin(*arguments)

    if where == "link":
        monkeypatch.setattr(os, "link", linked)
    else:
        monkeypatch.setattr("dray.folders.received_ledger.ReceivedLedger.begin", begun)
    put(dray.LargeMessageQueue(queue), "a")
    with receiving(queue, out, tree=True, retries=0, workers=2) as told:
        until(lambda: told)
    assert isinstance(told[0], FileReceived)
    said = [each.getMessage().partition(":")[0] for each in caplog.records]
    assert said == ["receiving has stopped and goes on by itself", "receiving goes on"]
    assert tree_of(out) == {"a": b"body"}
    assert len(failures) == 8


@pytest.mark.parametrize("where", ["ledger", "tree", "flat"])
def test_a_receiver_that_begins_on_a_full_disk_waits_for_room_with_two_lines(
    queue, out, *, monkeypatch, caplog, where
):
    monkeypatch.setattr("dray.folders.waiting.BACKOFF_S", (0.01, 0.01))
    kind, name = (LedgerDatabase, "_prepare") if where == "ledger" else (Path, "mkdir")
    original, failures = getattr(kind, name), []

    def full(*arguments, **named):
        if len(failures) < 3:
            failures.append(name)
            raise error_of_full_disk() if where == "ledger" else OSError(errno.ENOSPC, "No space")
        return original(*arguments, **named)

    monkeypatch.setattr(kind, name, full)
    put(dray.LargeMessageQueue(queue), "a")
    with pytest.raises(TargetUnwritable, match="free room on its disk, or"):
        dray.folders.receive(queue, out, tree=where != "flat", follow=False)
    with receiving(queue, out, tree=where != "flat") as told:
        until(lambda: told)
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        "waiting to begin",
        "begins now",
    ]
    assert tree_of(out) == {"a": b"body"}


def failing_once(call, error, when):
    """`call`, but the first time that `when` is true of its arguments it raises `error`."""
    failed = []

    def called(*arguments, **named):
        if not failed and when(*arguments):
            failed.append(error)
            raise error
        return call(*arguments, **named)

    return called, failed


@pytest.mark.parametrize("tree", [True, False])
def test_a_receiver_whose_directory_is_removed_says_so_and_ends(
    manager, queue, large, out, *, tree
):
    """The next one, which a service starts, makes the directory anew and loses nothing."""

    def remove(_):
        shutil.rmtree(out)
        put(large, "b")

    put(large, "a")
    with pytest.raises(dray.InvalidConfiguration, match=r"was removed or replaced.*start the rec"):
        dray.folders.receive(queue, out, tree=tree, stop=threading.Event(), tell=remove)
    dray.folders.receive(queue, out, tree=tree, follow=False)
    assert tree_of(out) == {"b": b"body"}
    assert f"{queue.name};poison" not in [each.name for each in manager.queues()]


@pytest.mark.parametrize("retried", [True, False])
def test_a_body_whose_own_sync_fails_is_retried_or_named_alone(
    manager, queue, large, out, *, monkeypatch, retried
):
    bodies = {str(number): b"%d" % number for number in range(6)}
    with manager.transaction() as transaction:
        for path, body in bodies.items():
            file = dray.FileProperties(path, len(body), 0)
            large.send(body, label=path, file=file, transaction=transaction)

    def of_the_third(descriptor):
        file = Path(f"/proc/self/fd/{descriptor}")
        return file.is_file() and file.read_bytes() == b"3"

    synced, failed = failing_once(os.fsync, OSError(errno.EIO, "Input/output error"), of_the_third)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr("dray.client.awaited.receiver.BACKOFF_S", (0.01, 0.01))
    told = []
    if retried:
        with receiving(queue, out, tree=True, retries=0) as told:
            until(lambda: len(told) == 6)
        assert Path(told[-1].path).name == "3", "the others did not wait for it"
    else:
        with pytest.raises(dray.TargetUnwritable, match=r"'3' cannot be written.*Input/output"):
            dray.folders.receive(queue, out, follow=False, tell=told.append)
        del bodies["3"]
    assert all(isinstance(each, FileReceived) for each in told)
    assert sorted(Path(each.path).name for each in told) == sorted(bodies)
    assert tree_of(out) == bodies
    assert queue.info().large_count == 6 - len(bodies)
    assert litter_in(out) == []
    assert failed


@pytest.mark.parametrize("on_conflict", ["number", "fail"])
@pytest.mark.parametrize("fault", ["folder", "note"])
def test_a_file_that_has_its_name_when_the_disk_fails_is_not_doubled(
    queue, large, out, *, monkeypatch, fault, on_conflict
):
    """The sync of its folder fails, or the ledger cannot note that it stands."""
    if fault == "folder":

        def of_the_folder(descriptor):
            return (out / "a").exists() and os.path.samestat(os.fstat(descriptor), out.stat())

        error = OSError(errno.EIO, "Input/output error")
        synced, failed = failing_once(os.fsync, error, of_the_folder)
        monkeypatch.setattr(os, "fsync", synced)
    else:
        finished, failed = failing_once(
            ReceivedLedger.finish,
            sqlite3.OperationalError("database or disk is full"),
            lambda *_: (out / "a").exists(),
        )
        monkeypatch.setattr("dray.folders.received_ledger.ReceivedLedger.finish", finished)
    monkeypatch.setattr("dray.client.awaited.receiver.BACKOFF_S", (0.01, 0.01))
    for path in ("a", "b"):
        put(large, path)
    with receiving(queue, out, tree=True, retries=0, on_conflict=on_conflict) as told:
        until(lambda: len(told) == 2)
    assert all(isinstance(each, FileReceived) for each in told)
    assert tree_of(out) == {"a": b"body", "b": b"body"}
    assert queue.info().message_count == 0
    assert failed


@pytest.mark.parametrize(
    "wrong",
    [
        {"on_conflict": "explode"},
        {"on_conflict": "replace", "tree": False},
        {"count": 0, "follow": False},
        {"count": 1},
        {"timeout": 1},
        {"timeout": -1, "follow": False},
        {"timeout": float("nan"), "follow": False},
        {"poison": "a;b"},
        {"retries": -1},
        {"then": "explode"},
        {"workers": 0},
        {"command": 'cat "{path}'},
        {"command": " "},
        {"command": "no-such-program {path}"},
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_received(queue, large, out, wrong):
    put(large, "a")
    with pytest.raises(dray.InvalidArgument, match=next(iter(wrong))):
        dray.folders.receive(queue, out, **wrong)
    assert large.peek(0).label == "a"


def test_a_flat_folder_keeps_nothing_of_dray_when_the_receiver_has_ended(queue, out):
    with receiving(queue, out, tree=False, workers=2) as told:
        put(dray.LargeMessageQueue(queue), "below/a", mtime_ns=1_234_567_890_000_000_000)
        until(lambda: told)
    assert [each.name for each in out.iterdir()] == ["a"]
    assert (out / "a").stat().st_mtime_ns == 1_234_567_890_000_000_000
