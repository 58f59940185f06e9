"""Promises about sends that are gone on with: `send(..., resume=)`."""

from __future__ import annotations

import json

import pytest

import dray
from dray.client.awaited import upload
from tests.interrupted_sends import BODY, Interrupted, interrupt, received


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Marks every ten fragments."""
    monkeypatch.setattr(upload, "UPLOAD_MARK_BYTES", 10_000)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "body"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def state(tmp_path):
    return tmp_path / "upload.state"


def test_an_interrupted_send_goes_on_from_the_last_mark(large, queue, state):
    interrupt(large, state)
    (unfinished,) = large.unfinished()
    assert (unfinished.bytes_done, unfinished.bytes_total) == (30_000, None)
    assert queue.info().message_count == 0
    noted = json.loads(state.read_text("utf-8"))
    assert noted["sequence_id"] == unfinished.sequence_id
    told = []
    sequence_id = large.send(
        Interrupted(1 << 30), resume=state, progress=lambda done, _: told.append(done)
    )
    assert sequence_id == unfinished.sequence_id
    assert told[-1] == len(BODY)
    assert received(large) == (sequence_id, BODY)
    assert large.unfinished() == []
    assert not state.exists()


def test_an_upload_is_gone_on_with_by_its_id_alone(large, state):
    interrupt(large, state)
    state.unlink()
    (unfinished,) = large.unfinished()
    assert large.send(BODY, resume=state) != unfinished.sequence_id
    assert received(large)[1] == BODY
    id = unfinished.sequence_id
    assert large.send(Interrupted(1 << 30), resume=id) == id
    assert received(large) == (id, BODY)
    assert large.send(Interrupted(1 << 30), resume=id) == id
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)


def test_what_was_committed_is_not_sent_again(large, path, state):
    """The answer to the commit was lost, and with it what removes the state file."""
    before = []

    def note(done, total):
        before[:] = [state.read_bytes()]

    sequence_id = large.send(path, resume=state, progress=note)
    state.write_bytes(before[0])
    assert large.send(path, resume=state) == sequence_id
    assert not state.exists()
    assert received(large) == (sequence_id, BODY)
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
