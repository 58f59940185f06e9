"""Transactions that were begun and forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.events import SessionClosed
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.unit.manager.conftest import ManagerDriver


@pytest.fixture
def driver(tmp_path: Path) -> ManagerDriver:
    return ManagerDriver(tmp_path / "data", idle_transaction_s=60.0)


def test_what_an_idle_transaction_held_is_given_back_and_its_next_use_told_why(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"held"))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.send(queue, Message(body=b"sent"), transaction=transaction)
    assert driver.manager.deadline() <= driver.now + 60.0
    driver.advance(59.0)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    driver.advance(1.0)
    assert caller.receive(queue, peek=True)[1] == [b"held"]
    for use in (
        message_frames.Commit(transaction, 1),
        message_frames.Commit(transaction, 0),
        message_frames.Prepare(transaction, 1),
        message_frames.Receive(queue, transaction, 0.0),
    ):
        with pytest.raises(errors.TransactionAborted, match=r"for 60 s \(idle_transaction_s"):
            caller.call(use)
    assert caller.receive(queue)[1] == [b"held"]
    assert driver.store.live_bytes == 0


@pytest.mark.parametrize("idle", [False, True], ids=["its session ended", "nobody used it"])
def test_of_very_many_transactions_a_turn_aborts_some_and_others_are_served_between(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    for where in ("requests.requests", "transactions.transactions"):
        monkeypatch.setattr(f"dray.manager.{where}.ABORTED_A_TURN", 4)
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"held")] * 10)
    for _ in range(10):
        caller.receive(queue, transaction=caller.number_for(), max_messages=1)
    if idle:
        driver.advance(60.0)
    else:
        driver.turn(SessionClosed(caller.number))
    for count in (4, 8, 10):
        assert len(other.receive(queue, peek=True)[1]) == count
        assert (driver.manager.deadline() == driver.now) == (count < 10)
        driver.advance(0.0)


def test_a_transaction_in_use_is_not_idle(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    for _ in range(5):
        caller.send(queue, Message(body=b"a"), transaction=transaction)
        driver.advance(40.0)
    caller.commit(transaction, 5)
    assert len(caller.receive(queue)[1]) == 5


def test_a_receive_that_waits_is_use(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, empty = caller.create("orders"), caller.create("empty")
    transaction = caller.number_for()
    caller.send(queue, Message(body=b"a"), transaction=transaction)
    waiting = caller.ask(message_frames.Receive(empty, transaction, 1000.0))
    for _ in range(5):
        driver.advance(59.0)
    caller.send(empty, Message(body=b"came"))
    assert isinstance(caller.answers(waiting)[0].head, message_frames.Messages)
    caller.commit(transaction, 1)
    assert caller.receive(queue)[1] == [b"a"]


def test_a_prepared_transaction_is_never_idle(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"a"), transaction=transaction)
    caller.call(message_frames.Prepare(transaction, 1))
    idle = caller.number_for()
    caller.send(queue, Message(body=b"b"), transaction=idle)
    driver.advance(100_000.0)
    with pytest.raises(errors.TransactionAborted):
        caller.commit(idle, 1)
    assert driver.manager.deadline() is None
    name = f"{driver.manager_id}\\{transaction}"
    caller.call(message_frames.SettlePrepared(name, commit=True))
    assert caller.receive(queue)[1] == [b"a"]


def test_a_receive_that_waits_keeps_its_own_transaction_and_no_other(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue, empty = caller.create("orders"), caller.create("empty")
    used, idle = caller.number_for(), caller.number_for()
    for number in (used, idle):
        caller.send(queue, Message(body=b"a"), transaction=number)
    caller.ask(message_frames.Receive(empty, used, 1000.0))
    other.ask(message_frames.Receive(empty, 0, 1000.0))
    driver.advance(61.0)
    with pytest.raises(errors.TransactionAborted):
        caller.commit(idle, 1)
    caller.commit(used, 1)
    assert caller.receive(queue)[1] == [b"a"]


def test_an_open_transaction_is_listed_without_queues_that_were_deleted(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    orders, gone = caller.create("orders"), caller.create("gone")
    transaction = caller.number_for()
    for queue in (orders, gone):
        caller.send(queue, Message(body=b"a"), Message(body=b"b"))
        caller.receive(queue, transaction=transaction)
    caller.call(queue_frames.DeleteQueue("gone"))
    (listed,) = caller.call(message_frames.ListPrepared()).open
    assert listed.held == {"orders": 2}
