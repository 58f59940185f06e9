"""Times at which something ends."""

from __future__ import annotations

from dray.model.expiry import end_us, is_over


def test_zero_stands_for_never_and_nothing_ends_then():
    assert not is_over(0, 0)
    assert not is_over(0, 1 << 60)


def test_something_is_over_from_the_microsecond_on_in_which_it_ends():
    assert [is_over(1, now) for now in (0, 1, 2)] == [False, True, True]
    assert [is_over(1_000, now) for now in (999, 1_000)] == [False, True]


def test_something_that_has_no_time_left_in_the_first_microsecond_ends_all_the_same():
    assert end_us(0, 0) == 1
    assert end_us(7, 3) == 10
