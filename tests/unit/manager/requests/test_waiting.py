"""Promises about receives that wait."""

from __future__ import annotations

from dray.model.message import Message
from dray.wire import frames
from tests.inspection import look_into


def test_each_wait_ends_at_its_own_time(driver):
    caller = driver.session()
    queue = caller.create("orders")
    waits = {seconds: caller.ask(frames.Receive(queue, 0, seconds)) for seconds in (10, 5, 20, 5)}
    for seconds in (5, 10, 20):
        assert driver.manager.deadline() == 1_700_000_000.0 + seconds
        assert not caller.answers(waits[seconds])
        driver.advance(1_700_000_000.0 + seconds - driver.now)
        (answer,) = caller.answers(waits[seconds])
        assert answer.head.error == "receive-timeout"
    assert driver.manager.deadline() is None


def test_waits_that_were_answered_leave_nothing_behind(driver):
    caller = driver.session()
    queue = caller.create("orders")
    for seconds in range(1000, 1200):
        waiting = caller.ask(frames.Receive(queue, 0, float(seconds)))
        caller.send(queue, Message(body=b"x"))
        assert caller.answers(waiting)
    assert len(look_into(driver.manager).waiters._timeouts) == 1
    driver.advance(1500)
    assert driver.manager.deadline() is None
