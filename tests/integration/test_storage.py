"""Queues' files, the audit and the move of a store, through the real program."""

from __future__ import annotations

import random
import re
import shutil
import signal
from contextlib import contextmanager

import pytest

import dray
from tests.integration.commands import dray as command
from tests.integration.commands import finish, started, until

pytestmark = pytest.mark.slow

ADMIN, ORDERS = "lqs/00000002.29d6f4b6", "lqs/00000010.8774014b"


@contextmanager
def serving(data, *, kill=False, alarms=0):
    """A manager in a process of its own; stopped, or killed, with the block."""
    with started("serve", "--data", data, "--open", "--listen", "127.0.0.1:0") as process:
        ready = re.search(r" ready at (\S+)\n", process.stdout.readline().decode())
        assert ready, process.stderr.read()
        yield ready[1]
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        said = finish(process)
    assert said.status == (-signal.SIGKILL if kill else 0), said
    assert said.err.count('"dray.audit"') >= alarms, said
    if not alarms:
        assert '"dray.audit"' not in said.err, said


def entries(data):
    return command("storage", "audit", "--data", data, "--json").assert_good().value["entries"]


def told(data):
    return [(entry["change"], entry["file"], entry["seen"]) for entry in entries(data)]


@pytest.fixture
def data(tmp_path):
    """A store with a queue and a message in it, stopped."""
    with serving(tmp_path / "d") as url, dray.connect(url) as manager:
        manager.create_queue("orders", quota="1MiB").send(b"kept")
    return tmp_path / "d"


def assert_kept(url):
    with dray.connect(url) as manager:
        assert [bytes(message.body) for message in manager.queue("orders").messages()] == [b"kept"]


def test_traffic_restarts_and_kills_cause_no_alarm(tmp_path):
    data, payload = tmp_path / "d", tmp_path / "payload"
    payload.write_bytes(random.Random(1).randbytes(20_000_000))
    for turn in range(4):
        with serving(data, kill=turn % 2 == 1) as url, dray.connect(url) as manager:
            queue = manager.create_queue(f"q{turn}", journal=turn == 2)
            for number in range(50):
                queue.send(b"%d" % number)
            large = dray.LargeMessageQueue(manager.create_queue(f"large{turn}"))
            large.send(payload)
            queue.receive(timeout=5)
            if turn:
                manager.delete_queue(f"q{turn - 1}")
    assert entries(data) == []


def test_what_others_do_is_told_running_and_stopped(data):
    storage = data / "storage"
    with serving(data, alarms=4):
        (storage / "notes.txt").write_text("mine")
        with (storage / "p0000001.mq").open("r+b") as file:
            file.write(b"")
        (storage / "notes.txt").unlink()
        until(lambda: ("deleted", "notes.txt", "running") in told(data))
    assert ("added", "notes.txt", "running") in told(data)
    assert ("edited", "p0000001.mq", "running") in told(data)
    before = len(entries(data))
    (storage / "left.txt").write_text("mine")
    (storage / ORDERS).write_text((storage / ORDERS).read_text().replace("1048576", "2097152"))
    with serving(data, alarms=2) as url, dray.connect(url) as manager:
        assert manager.queue("orders").info().quota == 2 << 20
    assert told(data)[before:] == [("added", "left.txt", "start"), ("edited", ORDERS, "start")]
    with serving(data, kill=True) as url:
        assert_kept(url)
    with serving(data):
        pass
    assert len(entries(data)) == before + 2


def test_a_changed_audit_is_refused(data):
    (data / "storage" / "x").write_text("x")
    (data / "storage" / "y").write_text("y")
    with serving(data, alarms=2):
        pass
    plain = command("storage", "audit", "--data", data).assert_good()
    assert "2 entries, the chain is whole" in plain.out
    text = (data / "audit.jsonl").read_text()
    (data / "audit.jsonl").write_text(text.replace('"x"', '"z"'))
    line = command("storage", "audit", "--data", data).assert_error("store-corrupt")
    assert "line 2" in line


def test_a_missing_file_of_an_internal_queue_is_refused_by_event_and_can_be_rebuilt(data):
    (data / "storage" / ADMIN).unlink()
    line = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0").assert_error(
        "store-corrupt"
    )
    assert "event 2020" in line
    assert ADMIN in line
    said = command("storage", "rebuild", "--data", data).assert_good()
    assert "wrote 1 missing file anew" in said.out
    with serving(data) as url:
        assert_kept(url)
    assert ("deleted", ADMIN, "start") in told(data)


def test_checkpoints_that_are_gone_are_refused_by_event_and_can_be_rebuilt(data):
    names = ("MQTrans.lg1", "MQTrans.lg2")
    for name in names:
        (data / "storage" / name).unlink()
    refused = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0")
    assert f"event 2064: {' and '.join(names)}" in refused.assert_error("store-corrupt")
    said = command("storage", "rebuild", "--data", data, "--json").assert_good()
    assert said.value["missing"] == list(names)
    with serving(data) as url:
        assert_kept(url)


def test_a_missing_file_of_a_users_queue_is_written_anew(data):
    (data / "storage" / ORDERS).unlink()
    with serving(data, alarms=1) as url:
        assert_kept(url)
        assert "QueueName=\\private$\\orders" in (data / "storage" / ORDERS).read_text()


def test_a_store_is_moved_and_goes_on_where_it_is(data, tmp_path):
    with serving(data):
        command("storage", "move", "--data", data, tmp_path / "n").assert_error("store-locked")
    new = tmp_path / "far" / "new"
    said = command("storage", "move", "--data", data, new).assert_good()
    assert "moved" in said.out
    line = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0").assert_error(
        "store-moved"
    )
    assert str(new) in line
    with serving(new) as url:
        assert_kept(url)
    assert told(new) == [("moved", "storage", "command")]
    again = command("storage", "move", "--data", data, new, "--json").assert_good()
    assert again.value["finished"]


def test_a_store_that_was_copied_by_hand_says_so(data, tmp_path):
    shutil.copytree(data, tmp_path / "copy")
    with serving(tmp_path / "copy", alarms=1) as url:
        assert_kept(url)
    (entry,) = entries(tmp_path / "copy")
    assert (entry["change"], entry["file"]) == ("moved", "storage")
    assert "copied from" in entry["detail"]


def copied_files(new):
    return sum(path.is_file() for path in new.rglob("*")) if (new / "moving.json").exists() else 0


def test_a_killed_move_leaves_exactly_one_store(data, tmp_path):
    """Killed when so many files are there, or right after the moment of the move; done again."""
    for moment, files in enumerate((1, 3, 7, 11, 99, 99)):
        new = tmp_path / f"new{moment}"
        mark = data / "moved.json"
        with started("storage", "move", "--data", data, new) as process:
            until(
                lambda new=new, mark=mark, files=files, process=process: (
                    copied_files(new) >= files or mark.exists() or process.poll() is not None
                )
            )
            process.kill()
        moved = mark.exists()
        home, other = (new, data) if moved else (data, new)
        refused = command("serve", "--data", other, "--open", "--listen", "127.0.0.1:0")
        refused.assert_error("store-moved")
        with serving(home) as url:
            assert_kept(url)
        command("storage", "move", "--data", data, new).assert_good()
        with serving(new) as url:
            assert_kept(url)
        data = new


def test_a_store_that_is_gone_after_a_crash_is_no_place_for_a_new_one(tmp_path):
    """As when its disk was not mounted at a boot; from the very first run on."""
    data = tmp_path / "d"
    with serving(data, kill=True) as url, dray.connect(url) as manager:
        manager.create_queue("orders").send(b"kept")
    (data / "storage").rename(tmp_path / "elsewhere")
    refused = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0")
    assert refused.status == 42
    assert "event 2076: QMLog is missing, like every other file" in refused.err
    shutil.rmtree(data / "storage")
    (tmp_path / "elsewhere").rename(data / "storage")
    with serving(data) as url:
        assert_kept(url)
