"""What is kept of a transfer survives whole, or the old one does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.client.transfer.kept import unfinished
from dray.client.transfer.reference import Reference
from dray.client.transfer.state import (
    IN,
    OUT,
    KeptIncoming,
    Offered,
    StateFile,
    folder_of,
    is_run,
    kept_incoming,
    kept_offers,
    status_of_incoming,
    status_of_offer,
)
from dray.errors import Misuse, TargetUnwritable
from dray.model.transfer import TransferState

REFERENCE = Reference(
    transfer="a" * 32,
    label="f",
    size=95,
    digest="blake3:" + "0" * 64,
    fragment_size=10,
    window_size=4,
)


def offered(**fields):
    return Offered(reference=REFERENCE, queue="reports", path="f", **fields)


def test_what_is_written_is_read(tmp_path):
    state = StateFile(tmp_path / "deep" / "er", "a", OUT)
    state.write(offered(transaction="t"))
    assert list(kept_offers(tmp_path / "deep" / "er")) == [offered(transaction="t")]
    state.write(offered(transaction="u"))
    assert [each.transaction for each in kept_offers(tmp_path / "deep" / "er")] == ["u"]
    state.release()


def test_both_directions_are_kept_apart(tmp_path):
    out, back = StateFile(tmp_path, "a", OUT), StateFile(tmp_path, "a", IN)
    out.write(offered())
    back.write(KeptIncoming(reference=REFERENCE, queue="reports", key="k"))
    assert len(list(kept_offers(tmp_path))) == len(list(kept_incoming(tmp_path))) == 1
    out.remove()
    assert list(kept_offers(tmp_path)) == []
    assert len(list(kept_incoming(tmp_path))) == 1
    back.remove()
    assert list(tmp_path.iterdir()) == []


def test_one_program_has_it_at_a_time(tmp_path):
    first = StateFile(tmp_path, "a", OUT)
    with pytest.raises(Misuse, match="another program"):
        StateFile(tmp_path, "a", OUT)
    first.release()
    first.release()
    StateFile(tmp_path, "a", OUT).release()


def test_it_is_free_once_released_although_a_forked_child_still_has_the_descriptor(tmp_path):
    state = StateFile(tmp_path, "a", OUT)
    of_the_child = os.dup(state.fileno())
    try:
        state.release()
        StateFile(tmp_path, "a", OUT).release()
    finally:
        os.close(of_the_child)


def test_whether_a_program_runs_it_can_be_asked_without_being_in_its_way(tmp_path):
    assert not is_run(tmp_path, "a", OUT)
    state = StateFile(tmp_path, "a", OUT)
    assert is_run(tmp_path, "a", OUT)
    assert not is_run(tmp_path, "a", IN)
    state.release()
    assert not is_run(tmp_path, "a", OUT)
    StateFile(tmp_path, "a", OUT).release()


def test_what_a_killed_program_was_sending_is_suspended(tmp_path):
    state = StateFile(tmp_path, "a" * 32, OUT)
    state.write(offered(state=TransferState.SENDING))
    assert [each.state for each in unfinished(tmp_path)] == [TransferState.SENDING]
    # A kill releases the lock and changes nothing else.
    state.release()
    assert [each.state for each in unfinished(tmp_path)] == [TransferState.SUSPENDED]


def test_fields_of_a_later_version_are_passed_over(tmp_path):
    state = StateFile(tmp_path, "a", OUT)
    state.write(offered())
    path = tmp_path / "a.out"
    path.write_text(path.read_text().replace("{", '{"later":1,', 1))
    assert list(kept_offers(tmp_path)) == [offered()]
    state.remove()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TargetUnwritable, match="DRAY_TRANSFERS"):
        StateFile(tmp_path / "file", "a", OUT)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"DRAY_TRANSFERS": "/t", "XDG_STATE_HOME": "/x"}, "/t/m"),
        ({"XDG_STATE_HOME": "/x"}, "/x/dray/transfers/m"),
        ({"XDG_STATE_HOME": "not/absolute", "HOME": "/h"}, "/h/.local/state/dray/transfers/m"),
        ({"HOME": "/h"}, "/h/.local/state/dray/transfers/m"),
    ],
)
def test_where_it_is_kept(monkeypatch, variables, folder):
    for name in ("DRAY_TRANSFERS", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert folder_of("m") == Path(folder)


def test_the_status_of_what_is_kept_tells_how_far_it_came():
    incoming = KeptIncoming(reference=REFERENCE, queue="reports", key="k", path="f")
    assert status_of_incoming(incoming, 10).bytes_done == 95
    assert status_of_incoming(incoming, 3).bytes_done == 30
    assert status_of_offer(offered()).bytes_done == 0
