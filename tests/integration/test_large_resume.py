"""Sends that are gone on with: what is checked, what is refused, and a sender that is killed."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys

import pytest

import dray
from dray.client.awaited import upload
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from tests.integration.commands import until
from tests.interrupted_sends import BODY, Interrupted, StopError, interrupt, received


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Marks every ten fragments."""
    monkeypatch.setattr(upload, "UPLOAD_MARK_BYTES", 10_000)


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        manager.create_queue("statusq")
        manager.create_queue("heavy")
        yield manager


@pytest.fixture
def large(manager):
    return dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=1000)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "body"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def state(tmp_path):
    return tmp_path / "upload.state"


def test_a_send_with_a_state_file_sends_and_removes_it(large, path, state):
    sequence_id = large.send(path, resume=str(state), label="body")
    assert not state.exists()
    assert received(large) == (sequence_id, BODY)
    assert large.unfinished() == []


def test_a_dropped_upload_begins_anew(large, state):
    interrupt(large, state)
    (unfinished,) = large.unfinished()
    large.drop_unfinished(unfinished.sequence_id)
    assert large.unfinished() == []
    with pytest.raises(dray.MessageNotFound):
        large.drop_unfinished(unfinished.sequence_id)
    sequence_id = large.send(Interrupted(1 << 30), resume=state)
    assert sequence_id != unfinished.sequence_id
    assert received(large) == (sequence_id, BODY)


@pytest.mark.parametrize("at", [0, 15_000, 29_999])
def test_a_body_that_begins_otherwise_is_refused(large, state, at):
    interrupt(large, state)
    other = BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :]
    with pytest.raises(dray.SourceChanged):
        large.send(Interrupted(1 << 30, other), resume=state)
    with pytest.raises(dray.SourceChanged):
        large.send(Interrupted(1 << 30, BODY[:20_000]), resume=state)
    assert received_after(large, state)


def received_after(large, state):
    """The upload is still there for the right body."""
    sequence_id = large.send(Interrupted(1 << 30), resume=state)
    return received(large) == (sequence_id, BODY)


@pytest.mark.parametrize("change", ["size", "time", "inode", "path"])
def test_a_file_that_changed_is_refused_before_anything_is_read(large, path, state, change):
    def stop(done, total):
        if done > 37_000:
            raise StopError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dray.client.files.progress.INTERVAL_S", 0.0)
        with pytest.raises(StopError):
            large.send(path, resume=state, progress=stop)
    match change:
        case "size":
            with path.open("ab") as file:
                file.write(b"more")
        case "time":
            os.utime(path, ns=(1, 1))
        case "inode":
            other = path.with_name("other")
            other.write_bytes(BODY)
            before = path.stat()
            os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
            other.replace(path)
        case "path":
            path = path.rename(path.with_name("elsewhere"))
    with pytest.raises(dray.SourceChanged) as caught:
        large.send(path, resume=state)
    assert caught.value.path == str(path)
    assert large.unfinished()[0].bytes_done == 30_000


def test_other_properties_are_refused(manager, large, state):
    interrupt(large, state, label="one")
    with pytest.raises(dray.Misuse, match="other properties"):
        large.send(Interrupted(1 << 30), resume=state, label="two")
    cut = dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=2000)
    with pytest.raises(dray.Misuse, match="other properties"):
        cut.send(Interrupted(1 << 30), resume=state, label="one")


def test_the_state_of_another_queue_is_refused(manager, large, state):
    interrupt(large, state)
    other = dray.LargeMessageQueue(manager.create_queue("other"), fragment_size=1000)
    with pytest.raises(dray.Misuse, match="state of an upload to"):
        other.send(Interrupted(1 << 30), resume=state)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', "\0"])
def test_what_is_no_state_file_is_refused(large, state, text):
    state.write_text(text, "utf-8")
    with pytest.raises(dray.Misuse, match=r"upload\.state"):
        large.send(BODY, resume=state)
    assert state.read_text("utf-8") == text


def test_a_state_file_that_cannot_be_written_is_told(large, tmp_path):
    with pytest.raises(dray.TargetUnwritable):
        large.send(BODY, resume=tmp_path / "missing" / "upload.state")
    with pytest.raises(dray.TargetUnwritable):
        large.send(BODY, resume=tmp_path)
    assert large.unfinished() == []


def test_it_has_a_transaction_of_its_own(manager, large, state):
    with manager.transaction() as transaction, pytest.raises(dray.TransactionUsage):
        large.send(BODY, resume=state, transaction=transaction)
    assert not state.exists()


@pytest.mark.parametrize("body", [b"", b"x", BODY[:1000], BODY])
def test_a_body_of_any_size_and_kind_can_be_resumed(large, state, body):
    for source in (body, io.BytesIO(body), iter([body])):
        large.send(source, resume=state)
        assert received(large)[1] == body


SENDER = """
import os, signal, sys
from pathlib import Path
import dray
from dray.client.files import progress
from dray.client.awaited import upload

progress.INTERVAL_S = 0.0
upload.UPLOAD_MARK_BYTES = 4 << 20
url, path, state, stop = sys.argv[1:]

def die(done, total):
    if done >= int(stop):
        os.kill(os.getpid(), signal.SIGKILL)

with dray.connect(url) as manager:
    large = dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=1 << 20)
    large.send(Path(path), resume=state, progress=die)
"""


@pytest.mark.slow
def test_a_sender_killed_again_and_again_sends_each_byte_about_once(tmp_path):
    """At 7 of 10, and again and again: what was marked is not sent again."""
    body = random.Random(9).randbytes(24 << 20)
    (tmp_path / "body").write_bytes(body)
    state = tmp_path / "upload.state"
    options = ServeOptions(data="", socket=str(tmp_path / "dray.sock"))
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    (address,) = daemon.addresses
    with dray.connect(address) as manager:
        manager.create_queue("statusq")
        heavy = manager.create_queue("heavy")
        large = dray.LargeMessageQueue(heavy)
        reached = 0
        for stop in (9 << 20, 16 << 20, 23 << 20, 1 << 40):
            arguments = [address, tmp_path / "body", state, stop]
            command = [sys.executable, "-c", SENDER, *map(str, arguments)]
            ended = subprocess.run(command, check=False, timeout=120)
            assert ended.returncode == (-signal.SIGKILL if stop < len(body) else 0)
            if stop > len(body):
                break
            # Of what the killed one had said, up to three lent fragments were not copied yet and
            # are lost with it; a mark behind every 4 MiB keeps what came before.
            until(lambda: large.unfinished()[0].bytes_done > stop - (7 << 20), 120)  # noqa: B023
            (unfinished,) = large.unfinished()
            assert reached < unfinished.bytes_done <= stop + (1 << 20)
            reached = unfinished.bytes_done
            assert heavy.info().message_count == 0
        assert reached >= 16 << 20
        with large.receive(timeout=30) as message:
            assert message.body() == body
        with pytest.raises(dray.ReceiveTimeout):
            large.receive(0)
    daemon.stop()
    assert not state.exists()
