"""A commit in doubt is called neither by who does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

import dray
from dray.cli.doubt import was_committed
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
