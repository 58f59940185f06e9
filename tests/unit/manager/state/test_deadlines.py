"""Times of numbers: the one that holds counts, whatever was noted before."""

from __future__ import annotations

import pytest

from dray.manager.state.deadlines import Deadlines, Expiries


@pytest.fixture
def times() -> dict[int, float]:
    return {}


@pytest.fixture
def deadlines(times: dict[int, float]) -> Deadlines:
    return Deadlines(times.get)


def test_numbers_are_due_the_soonest_first_and_once(times, deadlines):
    times |= {1: 30.0, 2: 10.0, 3: 20.0}
    assert (deadlines.soonest, deadlines.first()) == (None, None)
    for number, at in times.items():
        deadlines.note(number, at)
        deadlines.note(number, at)
    assert len(deadlines) == 3, "what is noted already is not noted again"
    assert (deadlines.soonest, deadlines.first()) == (10.0, 10.0)
    assert list(deadlines.due(9.9)) == []
    assert list(deadlines.due(20.0)) == [2, 3]
    assert (deadlines.soonest, deadlines.first()) == (30.0, 30.0)
    assert list(deadlines.due(100.0)) == [1]
    assert (deadlines.soonest, list(deadlines.due(100.0))) == (None, [])


def test_a_time_that_moved_back_holds_and_the_earlier_one_does_not(times, deadlines):
    times[1] = 10.0
    deadlines.note(1, 10.0)
    times[1] = 20.0
    assert list(deadlines.due(15.0)) == []
    assert deadlines.soonest == 20.0
    times[1] = 25.0
    assert (deadlines.soonest, deadlines.first()) == (20.0, 25.0)
    assert list(deadlines.due(24.9)) == []
    assert list(deadlines.due(25.0)) == [1]


def test_a_time_that_came_nearer_counts_once_it_is_noted(times, deadlines):
    times[1] = 20.0
    deadlines.note(1, 20.0)
    times[1] = 10.0
    deadlines.note(1, 10.0)
    assert deadlines.soonest == 10.0
    assert list(deadlines.due(10.0)) == [1]
    del times[1]
    assert list(deadlines.due(20.0)) == []


def test_a_number_without_a_time_is_never_due(times, deadlines):
    deadlines.note(1, 10.0)
    assert (deadlines.soonest, deadlines.first()) == (10.0, None)
    deadlines.note(1, 10.0)
    assert list(deadlines.due(10.0)) == []
    assert len(deadlines) == 0


def test_times_that_only_move_back_leave_one_entry(times, deadlines):
    for at in range(100):
        times[1] = float(at)
        deadlines.note(1, float(at))
    assert len(deadlines) == 1
    assert list(deadlines.due(98.0)) == []
    assert (len(deadlines), deadlines.first()) == (1, 99.0)


def test_a_number_that_is_noted_again_while_it_is_looked_at_is_due_again(times, deadlines):
    times[1] = 10.0
    deadlines.note(1, 10.0)
    for number in deadlines.due(10.0):
        times[number] = 30.0
        deadlines.note(number, 30.0)
    assert list(deadlines.due(30.0)) == [1]


def test_a_message_expires_at_its_time_and_once():
    expiries = Expiries()
    for expires_us in (20, 10, 30):
        expiries.add(expires_us, 7, expires_us)
    found = [list(expiries.due(now_us)) for now_us in (9, 10, 19, 30, 30)]
    assert found == [[], [(7, 10)], [], [(7, 20), (7, 30)], []]
