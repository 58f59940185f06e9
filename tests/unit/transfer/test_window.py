"""Credit: what may be sent, what has to be sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.transfer.window import Window


def test_no_more_than_the_window_is_under_way():
    window = Window(3, 10)
    assert window.peak == 0
    assert [window.take() for _ in range(3)] == [0, 1, 2]
    assert not window.has_room
    assert window.acked(1)
    assert window.take() == 3
    assert not window.has_room


def test_a_window_of_one_is_stop_and_wait():
    window = Window(1, 3)
    for number in range(3):
        assert window.take() == number
        assert not window.has_room
        window.acked(number + 1)
    assert (window.base, window.peak, window.resent) == (3, 1, 0)


def test_the_last_window_may_be_a_part_of_one():
    window = Window(4, 6)
    for _ in range(4):
        window.take()
    window.acked(4)
    assert [window.take(), window.take()] == [4, 5]
    assert not window.has_room


def test_a_request_sends_everything_from_its_number_again_in_order():
    window = Window(4, 10)
    for _ in range(4):
        window.take()
    assert window.back_to(1)
    assert [window.take() for _ in range(4)] == [1, 2, 3, 4]
    assert window.resent == 3


def test_a_request_acknowledges_what_is_before_it():
    window = Window(4, 10)
    for _ in range(4):
        window.take()
    window.back_to(3)
    assert (window.base, window.in_flight) == (3, 0)


@pytest.mark.parametrize("upto", [0, 2, 11])
def test_an_acknowledgment_that_is_old_or_out_of_bounds_changes_nothing(upto):
    window = Window(4, 10, start=2)
    assert not window.acked(upto)
    assert (window.base, window.next) == (2, 2)


@pytest.mark.parametrize("start", [0, 1, 11])
def test_a_request_that_is_old_or_out_of_bounds_changes_nothing(start):
    window = Window(4, 10, start=2)
    window.take()
    assert not window.back_to(start)
    assert (window.base, window.next) == (2, 3)


def test_beginning_anew_may_go_behind_what_was_acknowledged_and_counts_it_as_resent():
    window = Window(4, 10)
    window.take()
    window.acked(1)
    window.anew(0)
    assert window.take() == 0
    assert window.resent == 1


@given(
    size=st.integers(1, 6),
    count=st.integers(0, 20),
    steps=st.lists(st.tuples(st.sampled_from("tab"), st.integers(0, 21)), max_size=60),
)
def test_whatever_happens_the_window_is_kept(size, count, steps):
    window = Window(size, count)
    for what, number in steps:
        if what == "t" and window.has_room:
            window.take()
        elif what == "a":
            window.acked(number)
        elif what == "b":
            window.back_to(number)
        assert 0 <= window.base <= window.next <= window.top <= count
        assert window.in_flight <= size
    assert window.peak <= size
