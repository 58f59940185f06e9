"""Promises about receives that wait."""

from __future__ import annotations

import pytest

from dray.errors import MessageNotFound, ReceiveTimeout, StoreCorrupt, StorePoisoned
from dray.model.message import Message
from dray.wire import message_frames, selections
from tests.cost import Costs
from tests.inspection import look_into


def test_each_wait_ends_at_its_own_time(driver):
    caller = driver.session()
    queue = caller.create("orders")
    waits = {
        seconds: caller.ask(message_frames.Receive(queue, 0, seconds)) for seconds in (10, 5, 20, 5)
    }
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
        waiting = caller.ask(message_frames.Receive(queue, 0, float(seconds)))
        caller.send(queue, Message(body=b"x"))
        assert caller.answers(waiting)
    assert len(look_into(driver.manager).waiters._timeouts) == 1
    driver.advance(1500)
    assert driver.manager.deadline() is None


def lines_of_a_send(driver, caller, queue):
    costs = Costs()
    message = Message(body=b"x", correlation_id="for nobody")
    caller.send(queue, message)  # what comes first looks at everybody once
    costs.of("Send", lambda: caller.send(queue, message))
    return costs.most


@pytest.mark.parametrize("kind", ["a message id", "a correlation id"])
def test_an_arrival_looks_at_no_receive_that_waits_for_another_message(driver, kind):
    caller = driver.session()
    queue = caller.create("orders")

    def wait(number):
        name = f"awaited {number}"
        select = selections.SelectByCorrelation(name)
        if kind == "a message id":
            select = selections.SelectById(f"{driver.manager_id}\\{1_000_000 + number}")
        return caller.ask(message_frames.Receive(queue, 0, 600.0, select=select))

    asked = [wait(1)]
    alone = lines_of_a_send(driver, caller, queue)
    asked += [wait(number) for number in range(2, 500)]
    assert lines_of_a_send(driver, caller, queue) <= alone + 20
    assert not any(caller.answers(each) for each in asked)
    if kind == "a correlation id":
        caller.send(queue, Message(body=b"here", correlation_id="Awaited 77"))
        assert [each for each in asked if caller.answers(each)] == [asked[76]]


def test_receives_are_served_in_the_order_in_which_they_came_by_an_id_or_without(driver):
    caller = driver.session()
    queue = caller.create("orders")
    by_id = selections.SelectByCorrelation("one")
    asked = [
        caller.ask(message_frames.Receive(queue, 0, 600.0, select=select))
        for select in (by_id, selections.SelectFirst(), by_id, selections.SelectFirst())
    ]
    for served in range(1, 5):
        caller.send(queue, Message(body=b"x", correlation_id="one"))
        assert [bool(caller.answers(each)) for each in asked] == [True] * served + [False] * (
            4 - served
        )


def by_correlation(caller, queue, name, timeout=600.0):
    select = selections.SelectByCorrelation(name)
    return caller.ask(message_frames.Receive(queue, 0, timeout, select=select))


def failing(driver, monkeypatch, error):
    """Let no record be read."""

    def read(*_, **__):
        raise error

    monkeypatch.setattr(driver.store, "read", read)


def test_a_receive_that_waits_by_correlation_hears_of_a_message_that_cannot_be_read(
    driver, monkeypatch
):
    caller = driver.session()
    queue = caller.create("orders")
    waiting = [by_correlation(caller, queue, name) for name in ("one", "two")]
    with monkeypatch.context() as patch:
        failing(driver, patch, StoreCorrupt("a file is damaged", event=2083, file="p0000000.mq"))
        caller.send(queue, Message(body=b"x", correlation_id="one"))
    answers = [caller.answers(each) for each in waiting]
    assert [each.head.error for (each,) in answers] == [StoreCorrupt.code] * 2


def test_a_store_that_fails_while_receives_are_served_ends_the_turn_and_answers_nobody(
    driver, monkeypatch
):
    caller = driver.session()
    queue = caller.create("orders")
    waiting = by_correlation(caller, queue, "one")
    with monkeypatch.context() as patch:
        failing(driver, patch, StorePoisoned("a sync failed; start again"))
        with pytest.raises(StorePoisoned):
            caller.send(queue, Message(body=b"x", correlation_id="one"))
    assert not caller.answers(waiting)


def test_a_store_that_fails_while_one_receive_is_served_ends_the_turn_too(driver, monkeypatch):
    driver.leave_unchecked()
    caller = driver.session()
    queue = caller.create("orders")
    waiting = caller.ask(message_frames.Receive(queue, 0, 600.0))
    appended, append = [], driver.store.append

    def fails_the_second_time(data):
        appended.append(data)
        if len(appended) > 1:
            raise StorePoisoned("a sync failed; start again")
        append(data)

    monkeypatch.setattr(driver.store, "append", fails_the_second_time)
    with pytest.raises(StorePoisoned):
        caller.send(queue, Message(body=b"x"))
    assert not caller.answers(waiting)


def test_a_message_among_more_than_are_read_at_once_is_given_to_the_receive_that_waits_for_it(
    driver, monkeypatch
):
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUP_READ_AT_ONCE", 3)
    caller = driver.session()
    queue = caller.create("orders")
    waiting = by_correlation(caller, queue, "8")
    caller.send(queue, *(Message(body=b"x", correlation_id=str(each)) for each in range(10)))
    while not caller.answers(waiting):
        assert driver.manager.deadline() == driver.now
        driver.advance(0.0)
    (answer,) = caller.answers(waiting)
    assert isinstance(answer.head, message_frames.Messages)


def test_a_receive_that_must_not_wait_hears_at_once_after_the_reading_that_nothing_fits(
    driver, monkeypatch
):
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUP_READ_AT_ONCE", 3)
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=b"x", correlation_id=str(each)) for each in range(10)))
    asked = by_correlation(caller, queue, "nobody", timeout=0.0)
    turns = 0
    while not caller.answers(asked):
        turns += 1
        assert turns < 10
        driver.advance(0.0)
    (answer,) = caller.answers(asked)
    assert answer.head.error == MessageNotFound.code


def test_a_receive_that_waits_after_the_reading_is_told_when_its_time_is_over(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUP_READ_AT_ONCE", 3)
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=b"x", correlation_id=str(each)) for each in range(10)))
    asked = by_correlation(caller, queue, "nobody", timeout=30.0)
    while driver.manager.deadline() == driver.now:
        driver.advance(0.0)
    driver.advance(29.0)
    assert not caller.answers(asked)
    assert driver.manager.deadline() <= driver.now + 1.0
    driver.advance(1.0)
    (answer,) = caller.answers(asked)
    assert answer.head.error == ReceiveTimeout.code


def test_a_receive_that_waited_in_vain_is_told_how_long_it_waited(driver):
    caller = driver.session()
    queue = caller.create("orders")
    for timeout, said in ((2.5, "within 2.5 s"), (0.0, "within 0 s")):
        waiting = caller.ask(message_frames.Receive(queue, 0, timeout))
        driver.advance(timeout)
        (answer,) = caller.answers(waiting)
        assert said in answer.head.sentence
