"""What was called aborted stays so, however much was asked since and in whatever memory."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.transactions import aborted_transactions
from dray.manager.transactions.aborted_transactions import REPORTED, AbortedTransactions
from dray.model.leases import Leases
from dray.model.limits import NUMBERS_LEASED
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.unit.manager.conftest import Caller, ManagerDriver


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aborted_transactions, "TRANSACTIONS_REMEMBERED", 3)


def ask_for(caller: Caller, number: int) -> str:
    """What another program is told of a transaction."""
    other = caller.driver.session()
    head = other.call(message_frames.Outcome(f"{caller.driver.manager_id}\\{number}"))
    assert isinstance(head, message_frames.OutcomeIs)
    return head.status


def test_an_answered_aborted_is_final_however_many_answers_were_given_since(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, late = caller.create("orders"), caller.number_for()
    others = [caller.number_for() for _ in range(10)]
    assert [ask_for(caller, number) for number in (late, *others)] == ["aborted"] * 11
    for number in (late, *others):
        with pytest.raises(errors.TransactionAborted):
            caller.call(message_frames.Commit(number, 0))
        sent, body = caller._encoded(queue, [Message()], number, marks=(), guarded=True)[1:]
        (answer,) = caller.answers(caller.ask(sent, body))
        assert answer.head.error == errors.TransactionAborted.code
        with pytest.raises(errors.TransactionAborted):
            caller.call(message_frames.Prepare(number, 1))
    assert caller.call(queue_frames.DescribeQueue("orders")).info.message_count == 0


def test_what_begins_afterwards_and_what_had_begun_before_go_on(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, begun = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"1"), transaction=begun)
    for _ in range(10):
        assert ask_for(caller, caller.number_for()) == "aborted"
    caller.send(queue, Message(body=b"2"), transaction=begun)
    caller.commit(begun, 2)
    following = caller.number_for()
    caller.send(queue, Message(body=b"3"), transaction=following)
    caller.commit(following, 1)
    assert caller.receive(queue)[1] == [b"1", b"2", b"3"]


def test_of_two_clients_only_the_one_that_was_asked_about_is_held_to_it(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    for _ in range(10):
        ask_for(other, other.number_for())
    number = caller.number_for()
    caller.send(queue, Message(body=b"1"), transaction=number)
    caller.commit(number, 1)
    assert caller.receive(queue)[1] == [b"1"]


def test_the_memory_is_bounded_and_errs_on_the_side_of_refusing() -> None:
    memory = AbortedTransactions(Leases(1 << 40))
    firsts = [leased * NUMBERS_LEASED + 5 for leased in range(20)]
    for number in firsts:
        memory.add(number)
    assert len(memory._reasons) + len(memory._highest) == 6
    assert all(memory.reason(number) for number in firsts)
    assert [memory.reason(number) for number in firsts[-3:]] == [REPORTED] * 3
    assert memory.reason(firsts[16] + 1) is None
    assert memory.reason(firsts[19] + NUMBERS_LEASED) is None


def test_below_the_highest_of_a_lease_nothing_begins_and_other_leases_are_free() -> None:
    memory = AbortedTransactions(Leases(1 << 40))
    for number in (NUMBERS_LEASED, 2 * NUMBERS_LEASED + 3, 7, 8, 9):
        memory.add(number)
    assert [bool(memory.reason(number)) for number in (2, NUMBERS_LEASED)] == [True, True]
    assert memory.reason(NUMBERS_LEASED + 1) is None
    refused = [bool(memory.reason(2 * NUMBERS_LEASED + at)) for at in (1, 3, 4)]
    assert refused == [True, True, False]


def test_the_first_number_of_all_may_begin_while_only_another_lease_has_aborted() -> None:
    memory = AbortedTransactions(Leases(1 << 40))
    for at in range(4):
        memory.add(5 * NUMBERS_LEASED + 1 + at)
    assert memory.reason(1) is None


def test_no_transaction_of_a_forgotten_lease_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.model.leases.LEASES_KNOWN_MAX", 1)
    leases = Leases(1)
    for lease in range(2):
        leases.lease(lease * NUMBERS_LEASED + 1, "ada")
    memory = AbortedTransactions(leases)
    assert memory.reason(1)
    assert memory.reason(NUMBERS_LEASED + 1) is None
