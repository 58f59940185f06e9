"""Acknowledgment messages for which a queue manager has no room."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import StoreFull
from dray.manager.change import commit_fact
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.wire import message_frames
from dray.wire.record import read_header, read_properties
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.net import Net, address


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


def test_an_acknowledgment_that_its_queue_elsewhere_refuses_says_as_a_dead_letter_where_it_was_sent(
    tmp_path: Path,
) -> None:
    net, goal = Net(tmp_path, "ac"), address("c", "missing")
    caller = net["a"].session()
    orders = caller.create("orders")
    wish = {"administration_queue": goal, "acknowledge": Acknowledge.POSITIVE_RECEIVE}
    caller.send(orders, Message(body=b"one", **wish))
    caller.receive(orders)
    net.deliver()
    letters = caller.open("system$;deadxact")
    _, record = caller.call_whole(message_frames.Receive(letters, 0, 0.0, 100))
    assert read_properties(record, read_header(record)).destination == goal
