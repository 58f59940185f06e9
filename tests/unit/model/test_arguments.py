"""A value in a sentence is short, in one line, and never raises."""

from __future__ import annotations

import pytest

from dray.errors import InvalidArgument, Misuse
from dray.model.arguments import no_sense, shown
from tests.contract.wrong_values import Hostile, HostileText

SHOWN = [
    (5, "5"),
    ("x", "'x'"),
    ("a\nb", r"'a\nb'"),
    ("\ud800", r"'\ud800'"),
    ("x" * 1_000_000, "'" + "x" * 79 + "..."),
    (b"x" * 1_000_000, "b'" + "x" * 78 + "..."),
    ([0] * 100, str([0] * 100)[:80] + "..."),
    (10**5000, "an object of type int whose repr raises ValueError"),
    (Hostile(), "an object of type Hostile whose repr raises RuntimeError"),
    (HostileText("x"), "an object of type HostileText whose repr raises RuntimeError"),
]


@pytest.mark.parametrize("at", range(len(SHOWN)))
def test_a_value_is_shown_short_and_in_one_line(at):
    value, text = SHOWN[at]
    assert shown(value) == text


def test_a_repr_of_many_lines_is_put_into_one():
    class Tall:
        def __repr__(self) -> str:
            return "one\n  two"

    assert shown(Tall()) == "one two"


def test_an_argument_that_makes_no_sense_is_a_value_error_and_names_itself():
    error = no_sense("priority", "a whole number from 0 to 7", 9)
    assert isinstance(error, InvalidArgument | Misuse)
    assert isinstance(error, ValueError)
    assert str(error) == "priority is a whole number from 0 to 7, not 9"
    assert (error.argument, error.code, error.retryable) == ("priority", "invalid-argument", False)
