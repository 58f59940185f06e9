"""Formatters give back what they were given."""

from __future__ import annotations

import pytest

from dray.client.formatters import (
    BytesFormatter,
    JsonFormatter,
    MsgpackFormatter,
    TextFormatter,
    decoded,
    encoded,
)


@pytest.mark.parametrize(
    ("formatter", "value"),
    [
        (BytesFormatter(), b"\x00\xff"),
        (TextFormatter(), "Grüße"),
        (TextFormatter("utf-16"), "Grüße"),
        (JsonFormatter(), {"a": [1, None, "ü"]}),
        (MsgpackFormatter(), {"a": [1, None, b"\x00"]}),
    ],
)
def test_an_object_comes_back_as_it_was(formatter, value):
    body = formatter.encode(value)
    assert isinstance(body, bytes)
    assert decoded(formatter, encoded(formatter, value)) == value


def test_a_function_is_enough_for_one_direction():
    assert encoded(lambda value: f"{value}".encode(), 7) == b"7"
    assert decoded(int, b"7") == 7


def test_what_is_no_formatter_is_refused_in_words():
    with pytest.raises(TypeError, match="encode and decode, or a function, not a dict"):
        encoded({}, 7)
    with pytest.raises(TypeError, match="gives bytes, not str"):
        encoded(repr, 7)
