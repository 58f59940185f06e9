"""Sequence ids only ever rise, and say how their sequence began."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.delivery.sequences import (
    next_sequence_id,
    numbers_are_lookup_ids,
    renewed_sequence_id,
)

NOON = 1_700_000_000
ids = st.integers(0, 1 << 62)
seconds = st.integers(0, 1 << 30)


@given(ids, seconds)
def test_a_sequence_that_follows_another_is_above_it_and_says_that_all_was_acknowledged(own, now):
    following = next_sequence_id(own, now)
    assert following > own
    assert not numbers_are_lookup_ids(following)


@given(ids, ids, seconds)
def test_a_renewed_sequence_is_above_both_ends_and_says_so(own, peers, now):
    following = renewed_sequence_id(own, peers, now)
    assert following > max(own, peers)
    assert following >= now << 32
    assert numbers_are_lookup_ids(following)


@given(ids, ids, seconds)
def test_a_sequence_that_follows_a_renewed_one_is_above_it(own, peers, now):
    renewed = renewed_sequence_id(own, peers, now)
    assert next_sequence_id(renewed, now) > renewed


def test_within_a_second_sequences_are_counted():
    first = next_sequence_id(0, NOON)
    assert first == NOON << 32
    assert next_sequence_id(first, NOON) == first + 1
