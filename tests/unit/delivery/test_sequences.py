"""Sequence ids only ever rise, and say how their sequence began."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.delivery.sequences import (
    began_after,
    began_by_restore,
    next_sequence_id,
    restored_sequence_id,
)

NOON = 1_700_000_000
ids = st.integers(0, 1 << 62)
seconds = st.integers(0, 1 << 30)


@given(ids, seconds)
def test_a_sequence_that_follows_another_is_above_it_and_says_that_all_was_acknowledged(own, now):
    following = next_sequence_id(own, now)
    assert following > own
    assert not began_by_restore(following)


@given(ids, ids, seconds)
def test_a_sequence_after_a_restore_is_above_both_ends_and_says_so(own, peers, now):
    following = restored_sequence_id(own, peers, now)
    assert following > max(own, peers)
    assert following >= now << 32
    assert began_by_restore(following)


@given(ids, ids, seconds)
def test_whatever_follows_a_restore_began_after_its_second(own, peers, now):
    assert began_after(next_sequence_id(restored_sequence_id(own, peers, now), now), now)


def test_within_a_second_sequences_are_counted():
    first = next_sequence_id(0, NOON)
    assert first == NOON << 32
    assert next_sequence_id(first, NOON) == first + 1
    assert not began_after(first + 1, NOON)
