"""Settling never reaches over what is not landed, and reaches everything that is."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from dray.spark.positions import LandingProgress, join_ranges, ranges_of


def nothing(_):
    return None


def first_of(positions):
    """What a queue with messages at these positions answers."""
    return lambda after: min((each for each in positions if each > after), default=None)


def test_ranges_that_touch_move_the_position():
    assert LandingProgress().noting([(1, 4), (5, 9)]).advanced(nothing) == LandingProgress(9, ())


def test_a_gap_with_a_message_in_it_stops_the_position():
    # Another source's message has its parts at 3 and 4, between the parts of this one.
    progress = LandingProgress().noting([(1, 2), (5, 6)]).advanced(first_of([1, 2, 3, 4, 5, 6]))

    assert progress == LandingProgress(2, ((5, 6),))
    assert progress.noting([(3, 4)]).advanced(nothing) == LandingProgress(6, ())


def test_a_gap_without_a_message_is_passed_over():
    assert LandingProgress(2).noting([(5, 6)]).advanced(first_of([5, 6, 7])) == LandingProgress(
        6, ()
    )


def test_what_was_landed_before_changes_nothing():
    assert LandingProgress(9).noting([(1, 4), (5, 9)]).advanced(nothing) == LandingProgress(9, ())


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)), max_size=12), st.data())
def test_nothing_that_is_not_landed_is_ever_settled(spans, data):
    landed = [(first, first + length) for first, length in spans]
    covered = {each for first, last in landed for each in range(first, last + 1)}
    there = data.draw(st.sets(st.integers(1, 70)))

    progress = LandingProgress().noting(landed).advanced(first_of(there | covered))

    assert not [each for each in there - covered if each <= progress.upto]
    left = {each for first, last in progress.beyond for each in range(first, last + 1)}
    assert {each for each in covered if each > progress.upto} == left
    if not there - covered:
        assert not left


@given(st.sets(st.integers(1, 100)))
def test_ranges_hold_exactly_the_positions(positions):
    ranges = ranges_of(positions)

    assert {each for first, last in ranges for each in range(first, last + 1)} == positions
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(ranges))
    assert join_ranges(reversed(ranges)) == ranges


@given(st.lists(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 4)), max_size=3)))
def test_landed_ranges_are_the_same_whether_messages_are_noted_one_by_one_or_at_once(messages):
    landed = [[(first, first + length) for first, length in each] for each in messages]
    progress = LandingProgress()
    for ranges in landed:
        progress = progress.noting(ranges)
    assert progress == LandingProgress().noting([each for ranges in landed for each in ranges])
