"""Fields of forms: numbers that people write."""

from __future__ import annotations

import pytest

from dray.console.form import whole_number
from dray.console.pages.queues import page_of
from dray.console.sample.sending import read_fragment_size


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("0010", 10), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5_000, None)]
    + [(each, None) for each in ("", "-1", "1.5", " 1", "1e3", "²", "٣", "x")],
)
def test_a_number_is_read_or_it_is_none(text, number):
    assert whole_number(text) == number


def test_a_number_of_thousands_of_digits_is_no_page_and_no_fragment_size():
    assert page_of(["row"], "9" * 5_000, 10) == (1, 1, ["row"])
    assert read_fragment_size("9" * 5_000) is None
