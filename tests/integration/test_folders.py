"""Promises of `dray.folders`: each version of a file is sent once, whatever happens."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading

import pytest

import dray
import dray.folders
from dray.errors import TargetUnwritable
from dray.folders import FileSent, LeftOut
from dray.folders.clearing import Clearing
from dray.folders.ledger import FolderLedger
from dray.folders.ledger_database import LedgerDatabase
from dray.folders.sending import FolderSender
from dray.folders.tree import Tree
from dray.model.classes import TransactionStatus
from dray.testing.processes import ManagerProcess
from tests.integration.commands import until
from tests.integration.folder_calls import error_of_full_disk, in_a_thread

FILES = {"a": b"first", "b/c": b"", "b/d": b"x" * 5_000_000, "b/naïve": b"text"}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    for name, body in FILES.items():
        put(folder / name, body)
    return folder


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        yield manager


@pytest.fixture
def queue(manager):
    return manager.create_queue("files")


def put(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def received(queue):
    """Every file in the queue: path and body, in their order."""
    large, found = dray.LargeMessageQueue(queue), []
    while True:
        try:
            with large.receive(0) as message:
                assert message.size == message.file.size
                found.append((message.file.path, message.body()))
        except dray.ReceiveTimeout:
            return found


def watching(folder, queue, state, **options):
    return in_a_thread(dray.folders.watch, folder, queue, state=state, **options)


def paths(told):
    return [each.file.path for each in told if isinstance(each, FileSent)]


def test_every_file_below_a_folder_arrives_with_its_properties(folder, queue):
    (folder / "a").chmod(0o600)
    os.utime(folder / "a", ns=(1, 1_234_567_890_123_456_789))
    sent = {}
    tell = lambda each: sent.update({each.file.path: each.id})  # noqa: E731
    assert dray.folders.send(folder, queue, tell=tell) == (4, 5_000_009)
    with dray.LargeMessageQueue(queue).peek_by_id(sent["a"]) as message:
        assert message.label == "a"
        assert message.file == dray.FileProperties("a", 5, 1_234_567_890_123_456_789, 0o600)
    assert dict(received(queue)) == FILES


def test_the_same_call_again_sends_only_what_is_new_or_changed(folder, queue, state):
    assert dray.folders.send(folder, queue, state=state).files == 4
    assert dray.folders.send(folder, queue, state=state).files == 0
    put(folder / "new", b"new")
    put(folder / "a", b"changed")
    received(queue)
    assert dray.folders.send(folder, queue, state=state, changed="skip").files == 1
    assert dray.folders.send(folder, queue, state=state).files == 1
    assert received(queue) == [("new", b"new"), ("a", b"changed")]


def test_acknowledgments_that_no_queue_would_receive_are_refused(folder, queue):
    with pytest.raises(dray.InvalidArgument, match="needs administration_queue"):
        dray.folders.send(folder, queue, acknowledge=dray.Acknowledge.FULL_RECEIVE)
    assert queue.info().large_count == 0


def test_without_a_ledger_every_call_sends_everything(folder, queue):
    assert [dray.folders.send(folder, queue).files for _ in range(2)] == [4, 4]


@pytest.mark.parametrize(("batch", "transactions"), [(1, 4), (3, 2), (None, 1)])
def test_a_transaction_holds_as_many_files_as_asked_for(folder, queue, batch, transactions):
    dray.folders.send(folder, queue, batch=batch)
    large, ids = dray.LargeMessageQueue(queue), set()
    for _ in FILES:
        with large.receive(0) as message:
            ids.add(message.transaction_id)
    assert len(ids) == transactions


def test_a_file_that_changes_while_it_is_sent_is_not_sent_half(folder, queue, monkeypatch):
    _changes_while_it_is_sent(folder, monkeypatch)
    told = []
    assert dray.folders.send(folder, queue, tell=told.append).files == 3
    assert "b/d" not in dict(received(queue))
    (left_out,) = [each for each in told if isinstance(each, LeftOut)]
    assert left_out.path == "b/d"
    assert isinstance(left_out.error, dray.SourceChanged)


def _changes_while_it_is_sent(folder, monkeypatch):
    look_again = FolderSender._look_again

    def late(self, file):
        """Somebody writes after the last byte was read and before the file is looked at again."""
        if file.path == "b/d":
            with (folder / "b/d").open("ab") as writer:
                writer.write(b"more")
        return look_again(self, file)

    monkeypatch.setattr(FolderSender, "_look_again", late)


@pytest.mark.parametrize("after", ["delete", "move:{}"])
def test_files_are_cleared_once_they_are_sent(folder, queue, state, after):
    into = folder.parent / "done"
    dray.folders.send(folder, queue, state=state, after=after.format(into))
    assert [each for each in folder.rglob("*") if each.is_file()] == []
    if after != "delete":
        assert {str(each.relative_to(into)) for each in into.rglob("*") if each.is_file()} == set(
            FILES
        )
    put(folder / "a", b"again")
    assert dray.folders.send(folder, queue, state=state, after=after.format(into)).files == 1


def test_a_file_is_not_cleared_before_its_commit_is_certain(folder, queue, state, manager):
    """Noted in the ledger by a run that was killed before its commit."""
    transaction = manager.transaction()
    with FolderLedger(state, manager_id=manager.info().id, queue="files") as ledger:
        ledger.begin([(transaction.id, dray.folders.files_of(folder)[:1])])
    transaction.abort()
    assert dray.folders.send(folder, queue, state=state, after="delete").files == 4
    assert len(received(queue)) == 4


def test_a_transaction_whose_outcome_is_forgotten_needs_a_word(folder, queue, state, manager):
    """Found in the ledger of a queue manager that was restored, say."""
    backup = folder.parent / "backup"
    manager.backup(backup)
    (file, *_) = dray.folders.files_of(folder)
    with FolderLedger(state, manager_id=manager.info().id, queue="files") as ledger:
        ledger.begin([(manager.transaction().id, [file])])
    data = folder.parent / "restored"
    dray.restore(backup, data)
    with dray.open(data) as restored:
        again = restored.queue("files")
        status = restored.outcome(next(iter(_pending(state, restored))))
        assert status is TransactionStatus.UNKNOWN
        with pytest.raises(dray.InDoubt, match="no longer knows whether"):
            dray.folders.send(folder, again, state=state)
        assert dray.folders.send(folder, again, state=state, in_doubt="sent").files == 3


def _pending(state, manager):
    with FolderLedger(state, manager_id=manager.info().id, queue="files") as ledger:
        return ledger.pending()


@pytest.mark.parametrize("after", ["move", "copy", "move:", "keep:x", ""])
def test_an_unknown_way_to_clear_is_refused(folder, queue, after):
    with pytest.raises(dray.InvalidArgument, match="after is 'keep'"):
        dray.folders.send(folder, queue, after=after)


def test_a_watch_sends_what_is_there_and_what_appears(folder, queue, state):
    with watching(folder, queue, state, settle=0.05) as told:
        until(lambda: len(paths(told)) == 4)
        put(folder / "b/new", b"new")
        until(lambda: "b/new" in paths(told))
        put(folder.parent / "aside", b"moved")
        (folder.parent / "aside").rename(folder / "moved")
        until(lambda: "moved" in paths(told))
        put(folder.parent / "tree/x/y", b"deep")
        (folder.parent / "tree").rename(folder / "tree")
        until(lambda: "tree/x/y" in paths(told))
        (folder / "empty/deep").mkdir(parents=True)
        put(folder / "empty/deep/file", b"late")
        until(lambda: "empty/deep/file" in paths(told))
        put(folder / "a", b"changed")
        until(lambda: paths(told).count("a") == 2)
    assert sorted(path for path, _ in received(queue)) == sorted(
        [*FILES, "b/new", "moved", "tree/x/y", "empty/deep/file", "a"]
    )


def test_a_file_is_sent_when_its_writer_closes_it_and_not_before(folder, queue, state):
    with watching(folder, queue, state, settle=0.05) as told:
        until(lambda: len(paths(told)) == 4)
        with (folder / "growing").open("wb") as writer:
            writer.write(b"half")
            writer.flush()
            put(folder / "other", b"other")
            until(lambda: "other" in paths(told))
            # Long after its writer has paused for longer than a file has to settle.
            put(folder / "another", b"another")
            until(lambda: "another" in paths(told))
            assert "growing" not in paths(told)
            writer.write(b" and half")
        until(lambda: "growing" in paths(told))
    assert dict(received(queue))["growing"] == b"half and half"


def test_a_file_that_one_program_closes_is_sent_once_the_last_one_has_closed_it(
    folder, queue, state
):
    with watching(folder, queue, state, settle=0.05, after="delete") as told:
        until(lambda: len(paths(told)) == 4)
        with (folder / "report").open("ab") as second:
            put(folder / "report", b"header")
            put(folder / "other", b"other")
            until(lambda: "other" in paths(told))
            assert "report" not in paths(told)
            second.write(b" and rows")
        until(lambda: "report" in paths(told))
        until(lambda: not (folder / "report").exists())
    assert dict(received(queue))["report"] == b"header and rows"


def test_a_file_with_a_mark_is_sent_when_the_mark_appears(folder, queue, state):
    with watching(folder, queue, state, settle=0.05, ready_suffix=".done", after="delete") as told:
        put(folder / "b/x", b"x")
        put(folder / "b/y", b"y")
        put(folder / "b/y.done", b"")
        until(lambda: paths(told) == ["b/y"])
        until(lambda: not (folder / "b/y.done").exists())
    assert received(queue) == [("b/y", b"y")]
    assert (folder / "b/x").exists()


def test_a_folder_that_is_polled_is_sent_as_well(folder, queue, state):
    with watching(folder, queue, state, settle=0.05, poll=0.05) as told:
        until(lambda: len(paths(told)) == 4)
        put(folder / "new", b"new")
        until(lambda: "new" in paths(told))
        put(folder / "new", b"newer")
        until(lambda: paths(told).count("new") == 2)


def test_a_name_that_is_left_out_is_told_once(folder, queue, state):
    os.mkfifo(folder / "pipe")
    with watching(folder, queue, state, settle=0.02, poll=0.02) as told:
        until(lambda: len(paths(told)) == 4)
        put(folder / "new", b"new")
        until(lambda: "new" in paths(told))
    assert [each for each in told if isinstance(each, LeftOut)] == [LeftOut("pipe", "it is a FIFO")]


def test_a_file_that_cannot_be_read_is_told_once_and_again_after_it_was_sent(
    folder, queue, state, monkeypatch
):
    original, tried = Tree.body_of, []

    def refused(tree, file):
        if file.path != "bad":
            return original(tree, file)
        tried.append(file)
        raise dray.SourceUnreadable("permission denied", path="bad")

    put(folder / "bad", b"1")
    monkeypatch.setattr(Tree, "body_of", refused)
    with watching(folder, queue, state, settle=0.02, poll=0.02) as told:
        until(lambda: len(tried) == 3)
        monkeypatch.undo()
        until(lambda: "bad" in paths(told))
        tried.clear()
        monkeypatch.setattr(Tree, "body_of", refused)
        put(folder / "bad", b"2")
        until(lambda: len(tried) == 3)
    assert [each.path for each in told if isinstance(each, LeftOut)] == ["bad", "bad"]


@pytest.mark.slow
def test_a_watch_goes_on_when_its_queue_manager_was_killed(folder, state, tmp_path, caplog):
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        with watching(folder, queue, state, settle=0.05) as told:
            until(lambda: len(paths(told)) == 4)
            process.kill()
            put(folder / "meanwhile", b"1")
            until(lambda: "sending has stopped" in caplog.text)
            process.start()
            put(folder / "after", b"2")
            until(lambda: {"meanwhile", "after"} <= set(paths(told)))
        assert caplog.text.count("sending has stopped") == 1
        assert "sending goes on" in caplog.text
        assert len(received(queue)) == 6
        # One that begins while the queue manager is away waits for it, too.
        process.kill()
        put(folder / "late", b"3")
        with watching(folder, queue, state, settle=0.05) as told:
            until(lambda: "waiting to begin" in caplog.text)
            process.start()
            until(lambda: paths(told) == ["late"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "how"),
    [("begin", {}), ("settle", {}), ("settle", {"wait": "received", "after": "delete"})],
    ids=["in doubt", "after a commit", "before files arrive"],
)
def test_a_watch_ends_when_another_queue_manager_answers_in_the_place_of_its_own(
    folder, state, tmp_path, monkeypatch, *, step, how
):
    original, stop = getattr(FolderLedger, step), threading.Event()

    def replace(*arguments, **named):
        original(*arguments, **named)
        monkeypatch.undo()
        process.kill()
        (tmp_path / "one").rename(tmp_path / "own")
        process.start()
        manager.create_queue("files")
        put(folder / "new", b"1")

    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        monkeypatch.setattr(FolderLedger, step, replace)
        end = threading.Timer(20, stop.set)
        end.start()
        with pytest.raises(dray.InvalidConfiguration, match="answers now in the place of"):
            dray.folders.watch(folder, queue, state=state, settle=0.05, stop=stop, **how)
        end.cancel()
        assert received(queue) == [], "nothing was sent to the other one"
        process.kill()
        (tmp_path / "one").rename(tmp_path / "other")
        (tmp_path / "own").rename(tmp_path / "one")
        process.start()
        with watching(folder, queue, state, settle=0.05, **how) as told:
            until(lambda: "new" in paths(told))
        assert len(received(queue)) == 5


CAN_DIE = """
import os, sys
import dray, dray.folders
from dray.folders import sending

def die(*arguments, **named):
    os.kill(os.getpid(), 9)

def after(original):
    def call(*arguments, **named):
        original(*arguments, **named)
        die()
    return call

folder, state, url, point, how = sys.argv[1:]
"""
DIES = (
    CAN_DIE
    + """match point:
    case "before the note": sending.FolderLedger.begin = die
    case "after the note": sending.FolderLedger.begin = after(sending.FolderLedger.begin)
    case "after the commit": sending.FolderLedger.settle = die
    case "after the settling": sending.FolderLedger.settle = after(sending.FolderLedger.settle)
    case "after the hiding": os.rename = after(os.rename)
    case "after the clearing": sending.FolderLedger.cleared = die
with dray.connect(url) as manager:
    dray.folders.send(folder, manager.queue("files"), state=state, after=how)
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["keep", "delete"])
def test_a_run_that_is_killed_at_any_step_sends_nothing_twice_and_leaves_nothing_out(
    folder, tmp_path, after
):
    steps = ["before the note", "after the note", "after the commit", "after the settling"]
    steps += ["after the clearing"] if after == "delete" else []
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        for step in steps:
            state = tmp_path / step
            for name, body in FILES.items():
                put(folder / name, body)
            killed = subprocess.run(
                [sys.executable, "-c", DIES, folder, state, process.url, step, after], check=False
            )
            assert killed.returncode == -9
            dray.folders.send(folder, queue, state=state, after=after)
            assert sorted(received(queue)) == sorted(FILES.items()), step
            assert dray.folders.send(folder, queue, state=state, after=after).files == 0
            left = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
            assert left == (set(FILES) if after == "keep" else set())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["delete", "move"])
def test_a_file_that_a_kill_left_hidden_goes_though_its_folder_has_another_name(tmp_path, how):
    folder, into = tmp_path / "folder", tmp_path / "into"
    after = how if how == "delete" else f"move:{into}"
    put(folder / "b/c", b"text")
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        arguments = [folder, tmp_path / "state", process.url, "after the hiding", after]
        subprocess.run([sys.executable, "-c", DIES, *arguments], check=False)
        (hidden,) = (folder / "b").iterdir()
        assert hidden.name.startswith(".dray-")
        (folder / "b").rename(folder / "d")
        put(folder / "b/other", b"other")
        dray.folders.send(folder, queue, state=tmp_path / "state", after=after)
        assert received(queue) == [("b/c", b"text"), ("b/other", b"other")]
    assert [each for each in folder.rglob("*") if each.is_file()] == []
    assert how == "delete" or (into / "b/c").read_bytes() == b"text"


WAITING_DIES = (
    CAN_DIE
    + """ledger = sending.FolderLedger
match point:
    case "after the commit": ledger.settle = die
    case "after the settling": ledger.settle = after(ledger.settle)
    case "before the arrival is noted": ledger.note_arrivals = die
    case "after the arrival is noted": ledger.note_arrivals = after(ledger.note_arrivals)
    case "after the clearing": ledger.cleared = lambda *given, gone: die() if gone else None
with dray.connect(url) as manager:
    queue = manager.queue("files")
    dray.folders.watch(folder, queue, state=state, settle=0, batch=2, after=how, wait="accepted")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["delete", "move:{}"])
def test_a_watch_that_is_killed_at_any_step_removes_each_file_once_it_has_arrived(tmp_path, after):
    steps = ["after the commit", "after the settling", "before the arrival is noted"]
    steps += ["after the arrival is noted", "after the clearing"]
    after, files = after.format(tmp_path / "moved"), {"a": b"first", "b/c": b""}
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        for step in steps:
            folder, state = tmp_path / f"folder {step}", tmp_path / step
            for name, body in files.items():
                put(folder / name, body)
            killed = subprocess.run(
                [sys.executable, "-c", WAITING_DIES, folder, state, process.url, step, after],
                check=False,
            )
            assert killed.returncode == -9, step
            options = {"settle": 0, "after": after, "wait": "accepted"}
            with watching(folder, queue, state, **options):
                until(lambda folder=folder: not any(each.is_file() for each in folder.rglob("*")))
            assert sorted(received(queue)) == sorted(files.items()), step


def test_a_file_that_its_receiver_refused_stays_in_a_watched_folder(folder, queue, state):
    def refuse(message, transaction):
        raise ValueError("not this one")

    large = dray.LargeMessageQueue(queue)
    with watching(folder, queue, state, settle=0, after="delete", wait="received") as told:
        until(lambda: len(paths(told)) == 4)
        refused = dray.Receiver(large, retries=0).handle_next(refuse, 10).message.file.path
        for _ in range(3):
            large.receive(10).commit()
        until(lambda: len([each for each in folder.rglob("*") if each.is_file()]) == 1)
        until(lambda: any(isinstance(each, LeftOut) for each in told))
    assert (folder / refused).exists()
    (left_out,) = [each for each in told if isinstance(each, LeftOut)]
    assert left_out.path == refused
    assert left_out.reason.startswith("it was sent and stays in its folder: ")


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("size", [1_500_000, 5_000_000], ids=["short", "long"])
def test_a_file_longer_than_a_quota_is_named_and_holds_no_other_back(
    folder, queue, state, *, manager, batch, size
):
    put(folder / "b/d", b"x" * size)
    manager.set_quota("files", 1_000_000)
    with watching(folder, queue, state, settle=0.02, poll=0.02, batch=batch) as told:
        until(lambda: len(paths(told)) == 3)
        put(folder / "new", b"1")
        until(lambda: "new" in paths(told))
        manager.set_quota("files", None)
        until(lambda: "b/d" in paths(told))
    reason = f"it has {size} bytes, and the queue quota is 1000000 bytes"
    (left_out,) = [each for each in told if isinstance(each, LeftOut)]
    assert (left_out.path, left_out.reason) == ("b/d", reason)
    assert sorted(path for path, _ in received(queue)) == sorted([*FILES, "new"])


@pytest.mark.parametrize("batch", [1, None])
def test_a_send_sends_all_but_the_file_that_is_longer_than_a_quota(folder, queue, manager, batch):
    manager.set_quota("files", 1_000_000)
    told = []
    if batch is None:
        with pytest.raises(dray.QuotaExceeded):
            dray.folders.send(folder, queue, batch=batch, tell=told.append)
        assert told == []
        return
    dray.folders.send(folder, queue, batch=batch, tell=told.append)
    assert sorted(paths(told)) == sorted({*FILES} - {"b/d"})
    (left_out,) = [each for each in told if isinstance(each, LeftOut)]
    assert isinstance(left_out.error, dray.QuotaExceeded)


def test_a_folder_that_cannot_be_read_is_named(folder, queue, monkeypatch):
    original = os.scandir

    def scandir(path):
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    told = []
    assert dray.folders.send(folder, queue, tell=told.append).files == 0
    (left_out,) = told
    assert isinstance(left_out.error, dray.SourceUnreadable)
    assert str(left_out.error) == (
        f"{folder} is left out: it cannot be read: Permission denied; mend that, then send again"
    )


@pytest.mark.slow
def test_a_watch_waits_while_the_disk_of_its_ledger_is_full(
    folder, queue, state, *, monkeypatch, caplog
):
    original, full = LedgerDatabase.execute_many, threading.Event()

    def execute_many(*arguments):
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return original(*arguments)

    monkeypatch.setattr(LedgerDatabase, "execute_many", execute_many)
    with watching(folder, queue, state, settle=0, after="delete", wait="received") as told:
        until(lambda: len(paths(told)) == 4)
        for act in (lambda: put(folder / "new", b"1"), lambda: received(queue)):
            full.set()
            act()
            until(lambda: "sending has stopped" in caplog.text)
            full.clear()
            until(lambda: "sending goes on" in caplog.text)
            assert "ledger.sqlite cannot be written: database or disk is full" in caplog.text
            caplog.clear()
        until(lambda: not any(each.is_file() for each in folder.rglob("*")))
    assert sorted(paths(told)) == sorted([*FILES, "new"])


def test_a_watch_that_begins_on_a_full_disk_waits_for_room(
    folder, queue, state, *, monkeypatch, caplog
):
    monkeypatch.setattr("dray.folders.waiting.BACKOFF_S", (0.01, 0.01))
    prepare, failures = LedgerDatabase._prepare, []

    def full(*arguments, **named):
        if len(failures) < 3:
            failures.append(error_of_full_disk())
            raise failures[-1]
        prepare(*arguments, **named)

    monkeypatch.setattr(LedgerDatabase, "_prepare", full)
    with pytest.raises(TargetUnwritable, match="free room on its disk, or give another directory"):
        dray.folders.send(folder, queue, state=state)
    with watching(folder, queue, state, settle=0) as told:
        until(lambda: len(paths(told)) == 4)
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        "waiting to begin",
        "begins now",
    ]


@pytest.mark.parametrize(
    "wrong", [{"wait": "soon", "after": "delete"}, {"wait": "accepted"}], ids=["value", "kept"]
)
def test_a_wait_that_means_nothing_is_refused(folder, queue, state, wrong):
    with pytest.raises(dray.InvalidArgument, match="wait"):
        dray.folders.watch(folder, queue, state=state, **wrong)


@pytest.mark.parametrize(("how", "poll"), [("removed", None), ("removed", 0.1), ("replaced", None)])
def test_a_folder_that_is_removed_or_replaced_is_watched_anew_and_both_are_said(
    folder, queue, state, *, caplog, how, poll
):
    with watching(folder, queue, state, settle=0.05, poll=poll) as told:
        until(lambda: len(paths(told)) == 4, 20)
        if how == "removed":
            shutil.rmtree(folder)
            until(lambda: "folder is not there" in caplog.text, 20)
            folder.mkdir()
        else:
            put(folder.parent / "other/b/of another", b"")
            folder.rename(folder.parent / "before")
            (folder.parent / "other").rename(folder)
            until(lambda: "b/of another" in paths(told), 20)
        until(lambda: "folder is another folder than before" in caplog.text, 20)
        put(folder / "c/new", b"new")
        until(lambda: "c/new" in paths(told), 20)
        put(folder / "c/newer", b"newer")
        until(lambda: "c/newer" in paths(told), 20)


def test_a_walk_through_old_files_goes_on_without_waiting_for_changes(
    folder, queue, state, monkeypatch
):
    monkeypatch.setattr("dray.folders.watching._LISTEN_S", 1_000)
    monkeypatch.setattr("dray.folders.watching._PORTION", 1)
    dray.folders.send(folder, queue, state=state)
    put(folder / "z", b"behind the old ones, and older than the watch")
    told, stop = [], threading.Event()
    options = {"state": state, "settle": 0, "stop": stop, "tell": told.append}
    thread = threading.Thread(target=dray.folders.watch, args=(folder, queue), kwargs=options)
    thread.start()
    try:
        until(lambda: paths(told) == ["z"], 60)
    finally:
        stop.set()
        # Only a change wakes it, as long as it listens here.
        put(folder / "wake", b"")
        thread.join()


def test_a_watch_sends_nothing_of_its_own_folders_that_lie_in_its_folder(folder, queue):
    into = folder / "sent"
    with watching(folder, queue, folder / "state", settle=0, after=f"move:{into}") as told:
        until((into / "b/naïve").exists)
        put(folder / "b/new", b"new")
        until((into / "b/new").exists)
        put(folder / "state/of somebody", b"")
        put(folder / "last", b"last")
        until((into / "last").exists)
        put(folder / "really last", b"last")
        until((into / "really last").exists)
    assert sorted(paths(told)) == sorted([*FILES, "b/new", "last", "really last"])


@pytest.mark.parametrize("options", [{"after": "move:{}"}, {"state": "{}"}], ids=str)
def test_a_folder_is_not_its_own_state_nor_the_place_of_sent_files(folder, queue, state, options):
    given = {"state": state} | {name: each.format(folder) for name, each in options.items()}
    for call in (dray.folders.send, dray.folders.watch):
        with pytest.raises(dray.InvalidConfiguration, match="give another directory"):
            call(folder, queue, **given)


def test_a_file_that_never_keeps_still_holds_no_other_back(folder, queue, state):
    with (
        (folder / "0 grows").open("ab", buffering=0) as writer,
        watching(folder, queue, state, settle=0.3, poll=0.05) as told,
    ):
        until(lambda: writer.write(b"x") and set(FILES) <= set(paths(told)), 20)


def test_a_folder_that_is_named_by_a_link_is_watched(folder, queue, state):
    (folder.parent / "link").symlink_to(folder)
    with watching(folder.parent / "link", queue, state, settle=0.05) as told:
        until(lambda: len(paths(told)) == 4, 20)
        put(folder / "new", b"new")
        until(lambda: "new" in paths(told), 20)


def test_a_file_that_cannot_be_moved_is_named_and_holds_no_other_back(folder, queue, state):
    into = folder.parent / "done"
    put(into / "b", b"a file where a folder is to be")
    options = {"settle": 0, "after": f"move:{into}"}
    with watching(folder, queue, state, **options) as told:
        until((into / "a").exists)
        put(folder / "new", b"new")
        until((into / "new").exists)
        stays = {each.path for each in told if isinstance(each, LeftOut)}
    assert stays == {"b/c", "b/d", "b/naïve"}
    assert {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()} == stays
    (into / "b").unlink()
    with watching(folder, queue, state, **options):
        until((into / "b/naïve").exists)
    assert len(received(queue)) == 5


@pytest.mark.slow
def test_a_file_that_cannot_be_removed_costs_nothing_until_it_is_tried_again(
    folder, queue, state, *, monkeypatch
):
    read, rows = FolderLedger.to_clear, []

    def to_clear(ledger):
        found = read(ledger)
        rows.extend(found)
        return found

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(FolderLedger, "to_clear", to_clear)
    monkeypatch.setattr("dray.folders.sending._CLEAR_AGAIN_S", 3.0)
    monkeypatch.setattr(Clearing, "clear", refused)
    with watching(folder, queue, state, settle=0, after="delete") as told:
        until(lambda: sum(isinstance(each, LeftOut) for each in told) == 4)
        put(folder / "new", b"new")
        until(lambda: sum(isinstance(each, LeftOut) for each in told) == 5)
        assert sorted(each.path for each in rows) == sorted([*FILES, "new"])
        monkeypatch.undo()
        until(lambda: not any(each.is_file() for each in folder.rglob("*")))


def test_a_watch_that_is_told_to_stop_begins_no_other_file(folder, queue, state):
    for number in range(100):
        put(folder / f"{number:03}", b"x")
    stop = threading.Event()
    sent = dray.folders.watch(
        folder, queue, state=state, settle=0, stop=stop, tell=lambda _: stop.set()
    )
    assert 0 < sent.files <= 32
    assert dray.folders.send(folder, queue, state=state).files == 104 - sent.files


def test_one_transaction_sends_nothing_if_a_file_changes_meanwhile(folder, queue, monkeypatch):
    _changes_while_it_is_sent(folder, monkeypatch)
    with pytest.raises(dray.SourceChanged, match="nothing of the folder was sent"):
        dray.folders.send(folder, queue, batch=None)
    assert received(queue) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"changed": "Send"},
        {"batch": 0},
        {"in_doubt": "no"},
        {"settle": -1},
        {"settle": float("nan")},
        {"poll": 0},
        {"hidden": "no"},
        {"wait": "soon"},
        {"stop": 5},
        {"tell": "everything"},
        {"state": None},
    ],
    ids=str,
)
def test_a_value_that_would_be_taken_for_another_is_refused(folder, queue, state, wrong):
    with pytest.raises(dray.InvalidArgument, match=next(iter(wrong))):
        dray.folders.watch(folder, queue, **({"state": state} | wrong))


@pytest.mark.parametrize("name", ["include", "exclude"])
@pytest.mark.parametrize("given", ["*.jpg", 5, [5]], ids=str)
def test_one_pattern_without_a_list_is_refused(folder, queue, name, given):
    """`include="*.jpg"` would be the patterns `*`, `.`, `j`, `p` and `g`: every file."""
    with pytest.raises(TypeError, match=f"{name} is an iterable of patterns, not "):
        dray.folders.send(folder, queue, **{name: given})


@pytest.mark.parametrize("given", [None, "orders", 5], ids=str)
def test_what_is_no_queue_is_refused(folder, given):
    with pytest.raises(TypeError, match="queue is a queue of dray, such as "):
        dray.folders.send(folder, given)
