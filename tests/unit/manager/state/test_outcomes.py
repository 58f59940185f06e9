"""What became of a transaction, and when that can no longer be said."""

from __future__ import annotations

import pytest

from dray.manager.state import outcomes
from dray.manager.state.outcomes import Outcomes
from dray.model.ids import EXPRESS_OUTCOME
from dray.model.limits import NUMBERS_LEASED
from dray.model.message import Message
from dray.wire import message_frames
from tests.unit.manager.conftest import ManagerDriver


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Outcomes:
    """Remembers three transactions, and of three ranges what it forgot."""
    monkeypatch.setattr(outcomes, "TRANSACTIONS_REMEMBERED", 3)
    return Outcomes()


def test_what_is_remembered_is_committed_and_the_rest_is_not(small: Outcomes) -> None:
    for number in (1, 3, 5):
        small.add(number)
    assert [number in small for number in (1, 2, 3)] == [True, False, True]
    assert not any(small.may_have_forgotten(number) for number in range(1, 10))


def test_up_to_the_highest_that_was_forgotten_nothing_is_certain(small: Outcomes) -> None:
    for number in (1, 5, 3, 7, 9):
        small.add(number)
    assert small.committed() == [3, 7, 9]
    assert [small.may_have_forgotten(number) for number in (1, 4, 5, 6, 8)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_commit_of_a_high_range_is_not_denied_because_low_ones_are_remembered(
    small: Outcomes,
) -> None:
    """Two clients: the one with high numbers commits once, then the other one often."""
    high = NUMBERS_LEASED + 5
    small.add(high)
    for number in (1, 2, 3):
        small.add(number)
    assert high not in small
    assert small.may_have_forgotten(high)
    assert not small.may_have_forgotten(high + 1)
    assert not small.may_have_forgotten(4)


def test_the_memory_of_what_was_forgotten_is_bounded_and_stays_on_the_safe_side(
    small: Outcomes,
) -> None:
    firsts = [n * NUMBERS_LEASED + 1 for n in range(9)]
    for number in firsts:
        small.add(number)
    assert len(small.forgotten()) == 3
    assert all(small.may_have_forgotten(number) for number in firsts if number not in small)


def test_a_checkpoint_keeps_what_was_forgotten(small: Outcomes) -> None:
    for number in (1, 2, 3, 4):
        small.add(number)
    again = Outcomes(small.committed(), small.forgotten())
    assert again.may_have_forgotten(1)
    assert not again.may_have_forgotten(9)
    assert 4 in again


def test_a_client_is_told_that_an_old_outcome_is_unknown(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "TRANSACTIONS_REMEMBERED", 2)
    caller = driver.session()
    queue = caller.create("orders")
    numbers = []
    for _ in range(4):
        numbers.append(caller.number_for())
        caller.ask(message_frames.Send(queue, numbers[-1], [], []))
        caller.commit(numbers[-1], 1)
    driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    asker = driver.session()
    told = [
        asker.call(message_frames.Outcome(f"{driver.manager_id}\\{number}")) for number in numbers
    ]
    assert [each.status for each in told] == ["unknown", "unknown", "committed", "committed"]


@pytest.mark.parametrize("transactional", [True, False])
def test_a_send_without_a_transaction_is_remembered_by_its_first_message(
    driver: ManagerDriver, transactional: bool
) -> None:
    caller = driver.session()
    queue = caller.create("orders", transactional=transactional)
    number = caller.send(queue, Message(body=b"a"), Message(body=b"b"))[0]
    driver.crash()
    asker = driver.session()
    ids = [f"{driver.manager_id}\\{each}" for each in (number, number + 1)]
    told = [asker.call(message_frames.Outcome(each)).status for each in ids]
    assert told == ["committed", "aborted"]


def test_of_an_express_send_of_an_earlier_incarnation_nobody_knows(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("news", transactional=False)
    number = caller.send(queue, Message(body=b"a", recoverable=False))[0]
    doubt = f"{driver.manager_id}\\{number + EXPRESS_OUTCOME}"
    never = f"{driver.manager_id}\\{caller.number_for() + EXPRESS_OUTCOME}"
    assert caller.call(message_frames.Outcome(doubt)).status == "committed"
    assert caller.call(message_frames.Outcome(never)).status == "aborted"
    driver.crash()
    asker = driver.session()
    assert asker.call(message_frames.Outcome(doubt)).status == "unknown"


def test_each_lease_is_doubted_by_itself_from_its_first_number_to_its_last(small: Outcomes) -> None:
    for number in (NUMBERS_LEASED, NUMBERS_LEASED + 1, 5 * NUMBERS_LEASED + 9):
        small.add(number)
    small.add(5 * NUMBERS_LEASED + 10)
    assert small.forgotten() == [(0, NUMBERS_LEASED)]
    assert small.may_have_forgotten(1)
    assert small.may_have_forgotten(NUMBERS_LEASED)
    assert not small.may_have_forgotten(NUMBERS_LEASED + 2)
    small.add(5 * NUMBERS_LEASED + 11)
    assert small.forgotten() == [(0, NUMBERS_LEASED), (1, NUMBERS_LEASED + 1)]
    assert not small.may_have_forgotten(NUMBERS_LEASED + 2)


def test_of_the_lowest_lease_in_doubt_numbers_above_the_last_commit_stay_certain(
    small: Outcomes,
) -> None:
    for lease in (4, 5, 6, 7, 8, 9):
        small.add(lease * NUMBERS_LEASED + 2)
    assert len(small.forgotten()) == 3
    assert small.may_have_forgotten(4 * NUMBERS_LEASED), "a lease below, of which nobody knows"
    assert small.may_have_forgotten(4 * NUMBERS_LEASED + 2)
    assert not small.may_have_forgotten(4 * NUMBERS_LEASED + 3)


def test_numbers_from_before_a_restore_are_in_doubt_and_the_first_behind_it_is_not() -> None:
    restored = Outcomes(certain_from=7)
    assert [restored.may_have_forgotten(number) for number in (6, 7)] == [True, False]
