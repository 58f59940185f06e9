"""Acknowledgment messages for which a queue manager has no room."""

from __future__ import annotations

import pytest

from dray.errors import StoreFull
from dray.manager.change import commit_fact
from dray.model.classes import Acknowledge
from dray.model.message import Message
from tests.unit.manager.conftest import ManagerDriver


def test_an_acknowledgment_without_room_is_told_of_and_the_others_are_made(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    orders, told = caller.create("orders"), caller.create("told", transactional=False)
    place, failures = commit_fact.place, [StoreFull("no room is left", file="storage")]

    def place_or_fail(*arguments: object) -> object:
        if failures:
            raise failures.pop()
        return place(*arguments)

    monkeypatch.setattr(commit_fact, "place", place_or_fail)
    wishes = {"administration_queue": "told", "acknowledge": Acknowledge.POSITIVE_RECEIVE}
    caller.send(orders, *[Message(body=body, **wishes) for body in (b"one", b"two")])
    assert driver.session().receive(orders)[1] == [b"one", b"two"]

    assert len(driver.session().receive(told)[0]) == 1
    (notice,) = driver.manager.notices()
    assert "an acknowledgment message was not made: no room is left" in str(notice)
