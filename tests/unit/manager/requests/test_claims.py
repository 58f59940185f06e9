"""A receive outside of transactions: claimed, then confirmed, or back in its queue."""

from __future__ import annotations

import pytest

from dray.errors import (
    InvalidArgument,
    MessageNotFound,
    ReceiveTimeout,
    TransactionAborted,
    TransactionUsage,
)
from dray.manager.events import SessionClosed
from dray.model.limits import IDLE_TRANSACTION_S
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import frames, message_frames, queue_frames, selections

BOTH = pytest.mark.parametrize("transactional", [True, False])


@pytest.fixture
def caller(driver):
    return driver.session()


def claim(caller, queue, **options):
    """Claim what is there; its number, and the bodies."""
    number = caller.number_for()
    _, bodies = caller.receive(queue, transaction=number, claim=True, **options)
    return number, bodies


def outcome(driver, caller, number, *, claimed=True):
    head = message_frames.Outcome(f"{driver.manager_id}\\{number}", claim=claimed)
    return caller.call(head).status


@BOTH
def test_a_confirmed_claim_is_received_for_good(driver, caller, transactional):
    queue = caller.create("orders", transactional=transactional)
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    number, bodies = claim(caller, queue, max_messages=1)
    assert bodies == [b"a"]
    assert caller.commit(number, 0) == frames.Done(1)
    driver.crash()
    caller = driver.session()
    assert outcome(driver, caller, number) == "committed"
    assert caller.what_is_in(queue)[1] == [b"b"]


@BOTH
def test_a_claim_goes_back_with_its_session_and_counts_as_no_try(driver, caller, transactional):
    queue = caller.create("orders", transactional=transactional)
    caller.send(queue, Message(body=b"a"))
    other = driver.session()
    number, _ = claim(caller, queue)
    with pytest.raises(ReceiveTimeout):
        other.receive(queue)
    driver.turn(SessionClosed(caller.number))
    assert outcome(driver, other, number) == "aborted"
    envelopes, bodies = other.receive(queue)
    assert bodies == [b"a"]
    assert envelopes[0].abort_count == 0


@BOTH
def test_a_claim_goes_back_after_a_crash(driver, caller, transactional):
    queue = caller.create("orders", transactional=transactional)
    caller.send(queue, Message(body=b"a"))
    number, _ = claim(caller, queue)
    driver.crash()
    caller = driver.session()
    assert outcome(driver, caller, number) == "aborted"
    assert caller.what_is_in(queue)[1] == [b"a"]


def test_who_asks_for_its_claim_has_it_given_up_for_ever(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number, _ = claim(caller, queue)
    again = driver.session()
    assert outcome(driver, again, number, claimed=False) == "pending"
    assert outcome(driver, again, number) == "aborted"
    with pytest.raises(TransactionAborted):
        caller.commit(number, 0)
    assert again.what_is_in(queue)[1] == [b"a"]


def test_a_claim_stays_given_up_of_which_no_outcome_can_be_told(driver, caller, monkeypatch):
    monkeypatch.setattr("dray.manager.state.outcomes.TRANSACTIONS_REMEMBERED", 1)
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number, _ = claim(caller, queue)
    for _ in range(3):
        caller.send(queue, Message(body=b"b"))
    assert outcome(driver, driver.session(), number) == "unknown"
    with pytest.raises(TransactionAborted):
        caller.commit(number, 0)


def test_a_claim_of_another_manager_is_not_given_up(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number, _ = claim(caller, queue)
    head = message_frames.Outcome(f"{id_named('f')}\\{number}", claim=True)
    assert caller.call(head).status == "unknown"
    assert caller.commit(number, 0) == frames.Done(1)


def test_a_transaction_is_not_given_up_as_a_claim(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number = caller.number_for()
    caller.receive(queue, transaction=number)
    assert outcome(driver, driver.session(), number) == "pending"
    assert caller.commit(number, 0) == frames.Done(1)


def test_an_answer_to_a_claim_waits_for_no_sync_and_its_commit_does(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number = caller.number_for()
    request = caller.ask(message_frames.Receive(queue, number, 0.0, claim=True))
    (answer,) = caller.answers(request)
    assert not answer.held
    (answer,) = caller.answers(caller.ask(message_frames.Commit(number, 0)))
    assert answer.held


def test_a_claim_of_express_messages_is_in_no_fact(driver, caller):
    queue = caller.create("news", transactional=False)
    caller.send(queue, Message(body=b"a", recoverable=False))
    number, bodies = claim(caller, queue)
    assert bodies == [b"a"]
    before = driver.store.waiting_bytes
    assert caller.commit(number, 0) == frames.Done(1)
    assert driver.store.waiting_bytes == before
    assert outcome(driver, caller, number) == "committed"
    assert caller.what_is_in(queue)[1] == []


def test_a_claim_of_both_kinds_is_one_fact(driver, caller):
    queue = caller.create("news", transactional=False)
    caller.send(queue, Message(body=b"a", recoverable=False), Message(body=b"b"))
    number, bodies = claim(caller, queue)
    assert bodies == [b"a", b"b"]
    caller.commit(number, 0)
    driver.crash()
    caller = driver.session()
    assert outcome(driver, caller, number) == "committed"
    assert caller.what_is_in(queue)[1] == []


def test_claims_that_are_never_confirmed_go_back_when_they_have_been_idle(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    first, _ = claim(caller, queue)
    driver.advance(IDLE_TRANSACTION_S / 2)
    caller.send(queue, Message(body=b"b"))
    second, _ = claim(caller, queue)
    driver.advance(IDLE_TRANSACTION_S * 0.6)
    with pytest.raises(TransactionAborted, match="nothing happened"):
        caller.commit(first, 0)
    assert caller.commit(second, 0) == frames.Done(1)
    assert caller.what_is_in(queue)[1] == [b"a"]


def test_what_was_purged_while_it_was_claimed_does_not_come_back(driver, caller):
    queue = caller.create("orders", transactional=False)
    caller.send(queue, Message(body=b"a"))
    claim(caller, queue)
    other = driver.session()
    other.call(queue_frames.PurgeQueue(queue))
    driver.turn(SessionClosed(caller.number))
    assert other.what_is_in(queue)[1] == []


def test_a_claim_takes_one_number_and_one_phase(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    number, _ = claim(caller, queue)
    with pytest.raises(TransactionUsage):
        caller.call(message_frames.Prepare(number, 0))
    assert caller.commit(number, 0) == frames.Done(1)
    with pytest.raises(MessageNotFound):
        claim(caller, queue, select=selections.SelectAt(7))
    for wrong in ({"transaction": 0}, {"transaction": 9, "peek": True}):
        with pytest.raises(InvalidArgument):
            driver.session().call(message_frames.Receive(queue, timeout=0.0, claim=True, **wrong))
