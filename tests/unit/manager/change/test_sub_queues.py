"""Sub-queues come with their first use and go with their last (semantics 1.10)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.change import sub_queues
from dray.manager.events import SessionClosed
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.rights.test_table import ADA, allowing, driver_with


def names(driver: ManagerDriver) -> list[str]:
    """All sub-queues there are, asked for over a connection of its own."""
    listed = driver.session().call(queue_frames.ListQueues())
    assert isinstance(listed, queue_frames.QueueList)
    return [each.name for each in listed.queues if each.kind == "sub-queue"]


def hang_up(caller: Caller) -> None:
    caller.driver.turn(SessionClosed(caller.number))


def put_aside(caller: Caller, *bodies: bytes, transaction: int = 0) -> None:
    """Send messages and move them to orders;retry."""
    queue, retry = caller.open("orders"), caller.open("orders;retry")
    caller.send(queue, *(Message(body=each) for each in bodies))
    for envelope in caller.receive(queue, peek=True)[0]:
        caller.call(message_frames.Move(queue, envelope.lookup_id, retry, transaction))


@pytest.fixture
def caller(driver: ManagerDriver) -> Caller:
    caller = driver.session()
    caller.create("orders")
    return caller


def test_very_many_sub_queues_go_with_the_next_ticks_and_others_are_served_between(
    driver: ManagerDriver, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in ("change.sub_queues", "turn"):
        monkeypatch.setattr(f"dray.manager.{where}.UNUSED_QUEUES_A_TURN", 4)
    for number in range(10):
        caller.open(f"orders;{number}")
    hang_up(caller)
    for count in (10, 6, 2, 0):
        driver.session()
        assert len(names(driver)) == (count if count > 4 else 0)
        driver.advance(0.0)


@pytest.mark.parametrize("crash", [False, True])
def test_an_empty_sub_queue_is_gone_when_the_last_who_opened_it_has_left(
    driver: ManagerDriver, caller: Caller, crash: bool
) -> None:
    other = driver.session()
    number = caller.open("orders;retry")
    assert other.open("orders;retry") == caller.open("orders;retry") == number
    hang_up(caller)
    assert names(driver) == ["orders;retry"]
    if crash:
        driver.crash()
    else:
        hang_up(other)
    assert names(driver) == []
    assert look_into(driver.manager).state.queues.named("orders").sub_queues == []
    assert driver.manager.deadline() != driver.now
    driver.crash()
    assert names(driver) == []


def test_what_is_in_it_keeps_a_sub_queue_until_it_has_left(
    driver: ManagerDriver, caller: Caller
) -> None:
    put_aside(caller, b"1")
    hang_up(caller)
    assert names(driver) == ["orders;retry"]
    driver.crash()
    receiver = driver.session()
    assert receiver.receive(receiver.open("orders;retry"))[1] == [b"1"]
    assert names(driver) == ["orders;retry"], "it is open"
    hang_up(receiver)
    assert names(driver) == []


def test_what_a_transaction_holds_keeps_it_and_comes_back_to_it(
    driver: ManagerDriver, caller: Caller
) -> None:
    put_aside(caller, b"1")
    retry = caller.open("orders;retry")
    caller.receive(retry, transaction=caller.number_for())
    hang_up(caller)
    assert names(driver) == ["orders;retry"]
    receiver = driver.session()
    assert receiver.receive(receiver.open("orders;retry"))[1] == [b"1"]


def test_one_that_expires_empty_while_nobody_has_it_open_is_gone(
    driver: ManagerDriver, caller: Caller
) -> None:
    queue, retry = caller.open("orders"), caller.open("orders;retry")
    caller.send(queue, Message(body=b"1", time_to_be_received=10.0))
    caller.call(message_frames.Move(queue, 1, retry, 0))
    hang_up(caller)
    assert names(driver) == ["orders;retry"]
    driver.advance(11.0)
    assert names(driver) == []


@pytest.mark.parametrize("commit", [False, True])
def test_what_a_prepared_transaction_moves_into_it_keeps_it(
    driver: ManagerDriver, caller: Caller, commit: bool
) -> None:
    queue, retry = caller.open("orders"), caller.open("orders;retry")
    transaction = caller.number_for()
    caller.send(queue, Message(body=b"1"))
    caller.call(message_frames.Move(queue, 1, retry, transaction))
    caller.call(message_frames.Prepare(transaction, 0))
    hang_up(caller)
    driver.crash()
    assert names(driver) == ["orders;retry"]
    settler = driver.session()
    settler.call(
        message_frames.SettlePrepared(f"{driver.manager_id}\\{transaction}", commit=commit)
    )
    assert names(driver) == (["orders;retry"] if commit else [])
    where = settler.open("orders;retry" if commit else "orders")
    assert settler.receive(where)[1] == [b"1"]


@pytest.mark.parametrize("crash", [False, True])
def test_no_position_of_a_sub_queue_is_used_twice_though_it_was_gone(
    driver: ManagerDriver, caller: Caller, crash: bool
) -> None:
    seen: list[int] = []
    for _ in range(3):
        if crash:
            driver.crash()
        user = driver.session()
        put_aside(user, b"1", b"2")
        envelopes, _ = user.receive(user.open("orders;retry"))
        seen += [each.lookup_id for each in envelopes]
        hang_up(user)
    assert len(seen) == 6
    assert seen == sorted(set(seen))


def test_who_has_it_open_is_not_disturbed(driver: ManagerDriver, caller: Caller) -> None:
    """Its number stays good, and a wait at it goes on, while it is emptied and filled again."""
    retry = caller.open("orders;retry")
    request = caller.ask(message_frames.Receive(retry, 0, None))
    other = driver.session()
    put_aside(other, b"1")
    hang_up(other)
    (answer,) = caller.answers(request)
    assert isinstance(answer.head, message_frames.Messages)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(retry)


def test_a_journal_stays(driver: ManagerDriver, caller: Caller) -> None:
    caller.open("orders;journal")
    hang_up(caller)
    listed = driver.session().call(queue_frames.ListQueues())
    assert isinstance(listed, queue_frames.QueueList)
    assert "orders;journal" in [each.name for each in listed.queues]


def test_queues_that_a_caller_has_deleted_count_no_more_for_its_share(tmp_path, monkeypatch):
    monkeypatch.setattr(sub_queues, "QUEUES_MAX", 4)
    monkeypatch.setattr(sub_queues, "QUEUES_SHARE", 2)
    driver = driver_with(tmp_path, allowing("user:ada", "manage see", "*"))
    ada = driver.session(ADA)
    ada.create("a")
    ada.create("b")
    with pytest.raises(errors.Misuse, match="user:ada has made 2 queues and sub-queues"):
        ada.create("c")
    ada.call(queue_frames.DeleteQueue("a"))
    ada.create("c")
    with pytest.raises(errors.Misuse, match="has made 2 queues"):
        ada.create("d")
    driver.session().create("d")


@pytest.mark.parametrize(("part", "kind"), [("later", "sub-queue"), ("journal", "journal")])
def test_no_queue_but_one_of_a_user_has_parts(caller: Caller, part: str, kind: str) -> None:
    with pytest.raises(errors.QueueNotFound, match=f"'order_queue\\$' has no {kind}"):
        caller.open(f"order_queue$;{part}")
