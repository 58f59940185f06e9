"""Rates are those of the last seconds, and things that nobody looks at are forgotten."""

from __future__ import annotations

from dray.console.pages.transfers import Paces


def test_a_rate_is_that_of_the_last_fifteen_seconds():
    paces = Paces()
    assert paces.rate("a", 1000, 100.0) == 0.0
    assert paces.rate("a", 3000, 102.0) == 1000.0
    assert paces.rate("a", 3000, 110.0) == 200.0
    assert paces.rate("a", 3000, 120.0) == 0.0
    assert paces.rate("a", 3000, 126.0) == 0.0


def test_what_goes_back_has_no_rate():
    paces = Paces()
    paces.rate("a", 1000, 100.0)
    assert paces.rate("a", 10, 101.0) == 0.0


def test_things_that_nobody_looks_at_are_forgotten():
    paces = Paces()
    paces.rate("a", 1, 100.0)
    paces.rate("b", 1, 190.0)
    assert set(paces._looks) == {"b"}
