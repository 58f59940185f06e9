"""Sequence ids only ever rise, and say how their sequence began."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.delivery.sequences import (
    may_be_known,
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
    renewed = renewed_sequence_id(first, 0, NOON)
    assert next_sequence_id(renewed, NOON) == NOON + 1 << 32, "there they are counted anew"


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_clock_of_any_year_makes_ids_that_fit_a_frame(first_seconds, then):
    first = next_sequence_id(0, first_seconds)
    renewed = renewed_sequence_id(first, 0, then)
    second = next_sequence_id(renewed, then)
    assert first < renewed < second < 1 << 64
    assert all(may_be_known(each, 0) for each in (0, first, renewed))


@given(st.integers((1 << 64) - (1 << 54), (1 << 64) - 1), seconds)
def test_there_is_an_id_above_each_that_a_peer_may_know(told, now):
    own = next_sequence_id(0, now)
    if may_be_known(told, own):
        renewed = renewed_sequence_id(own, told, now)
        assert told < renewed < 1 << 64
        assert may_be_known(renewed, renewed)
    assert not may_be_known((1 << 64) - 1, own)
    assert not may_be_known(-1, own)
