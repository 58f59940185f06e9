"""A commit in doubt is called neither by who does not know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import dray
from dray.cli.doubt import moved, was_committed
from dray.cli.settings import Settings
from dray.model.ids import ManagerId, join_id


def test_what_the_queue_manager_does_not_know_stays_in_doubt(tmp_path: Path) -> None:
    """It may have forgotten it; whoever sends it again may send it twice."""
    doubt = dray.InDoubt("no answer came", transaction_id=join_id(ManagerId("f" * 32), 7))
    with pytest.raises(dray.InDoubt) as raised:
        was_committed(lambda: dray.open(tmp_path / "store"), doubt, 30.0)
    assert raised.value.transaction_id == doubt.transaction_id
    assert f"dray transaction outcome '{doubt.transaction_id}'" in str(raised.value)


def test_a_queue_manager_that_does_not_answer_as_it_should_is_asked_now_and_then() -> None:
    """Not as often as the processor can."""
    doubt = dray.InDoubt("no answer came", transaction_id=join_id(ManagerId("f" * 32), 7))
    asked = []

    def connect() -> dray.Manager:
        asked.append(1)
        raise dray.ProtocolError("this is no queue manager")

    with pytest.raises(dray.InDoubt):
        was_committed(connect, doubt, 0.05)
    assert len(asked) == 1


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose connection is an embedded queue manager with five messages."""
    store = tmp_path / "store"
    with dray.open(store) as manager:
        manager.create_queue("orders").send_many([b"x"] * 5)
    return cast("Settings", SimpleNamespace(connect=lambda: dray.open(store)))


def ids_in(manager: dray.Manager) -> list[str]:
    return [each.id for each in manager.queue("orders").contents()]


def test_a_connection_that_is_lost_between_two_moves_is_made_again_and_all_are_counted(
    settings: Settings,
) -> None:
    calls: list[int] = []

    def act(manager: dray.Manager, ids: Sequence[str] | None) -> int:
        assert ids is not None
        calls.append(len(ids))
        for number, each in enumerate(ids):
            if (len(calls), number) == (1, 2):
                raise dray.ConnectionLost("the queue manager is killed here")
            manager.queue("orders").receive_by_id(each)
        return len(ids)

    with settings.connect() as manager:
        ids = ids_in(manager)
    assert moved(settings, ids, act, ids_in, note="") == 5
    assert calls == [5, 3]


def test_a_queue_manager_that_is_not_there_at_first_is_not_waited_for() -> None:
    def away() -> dray.Manager:
        raise dray.ConnectionLost("nobody answers")

    gone = cast("Settings", SimpleNamespace(connect=away))
    with pytest.raises(dray.ConnectionLost, match="nobody answers"):
        moved(gone, ["x"], lambda *_: 1, lambda _: [], note="")
