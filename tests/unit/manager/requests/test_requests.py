"""Promises about the table of all requests, and about what requests leave for later."""

from __future__ import annotations

import pytest

from dray.errors import ReceiveTimeout
from dray.manager.events import SessionClosed, SessionOpened
from dray.manager.requests import requests
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.wire import backup_frames, frames, large_frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Source


def test_each_frame_of_a_client_is_answered_by_one_function():
    receive, send = {message_frames.Receive: print}, {message_frames.Send: print}
    assert requests.joined(receive, send) == receive | send
    with pytest.raises(AssertionError, match="one function answers each frame"):
        requests.joined(receive, send, receive)


def test_a_client_that_goes_away_leaves_nothing_open(driver):
    caller = driver.session()
    queue = caller.create("orders")
    caller.call(backup_frames.Backup())
    number = caller.number_for()
    caller.send(queue, Message(body=b"1"), transaction=number)
    caller.call(large_frames.UploadBegin(queue, caller.number_for(), 100, b""))
    caller.ask(message_frames.Receive(queue, 0, 600.0))
    driver.turn(SessionClosed(caller.number))
    inside = look_into(driver.manager)
    assert number not in inside.transactions
    assert not list(inside.state.queues.find("orders").waiters)
    other = driver.session()
    assert isinstance(other.call(backup_frames.Backup()), backup_frames.BackupBegun)
    with pytest.raises(ReceiveTimeout):
        other.receive(queue)


def test_a_manager_that_was_told_of_no_process_names_none(driver):
    caller = driver.session()
    driver.advance(5.0)
    info = caller.call(queue_frames.Describe()).info
    assert (info.pid, info.name, info.uptime) == (0, "test", 5.0)


def test_numbers_are_leased_and_files_lent_by_clients_and_not_by_managers(driver):
    caller = driver.session()
    (welcome,) = (each.head for each in caller.answers(1))
    assert isinstance(welcome, frames.Welcome)
    assert welcome.takes_files
    assert min(welcome.first_number, welcome.number_count) > 0
    driver.turn(SessionOpened(900, OWNER))
    source = Source(driver, 900, "b")
    (welcome,) = source.say(source.keyed.hello())
    assert (welcome.first_number, welcome.number_count, welcome.takes_files) == (0, 0, False)
