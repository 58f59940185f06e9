"""When a peer is dialled again."""

from __future__ import annotations

import pytest

from dray.delivery.backoff import Backoff


def waits(backoff, count):
    return [backoff.failed(100.0) - 100.0 for _ in range(count)]


def test_waits_double_up_to_the_ceiling():
    assert waits(Backoff(5.0), 7) == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_a_success_makes_the_next_wait_short_again():
    backoff = Backoff(5.0)
    waits(backoff, 4)
    backoff.succeeded()
    assert waits(backoff, 1) == pytest.approx([0.2])


def test_a_ceiling_below_the_first_wait_is_kept():
    assert waits(Backoff(0.05), 2) == pytest.approx([0.05, 0.05])


def test_jitter_only_shortens_the_wait():
    assert Backoff(5.0).failed(0.0, jitter=0.5) == pytest.approx(0.1)
    assert Backoff(5.0).failed(0.0, jitter=3.0) == pytest.approx(0.2)


def test_years_of_failures_do_not_overflow():
    backoff = Backoff(5.0)
    backoff.failures = 10**9
    assert backoff.failed(0.0) == 5.0
