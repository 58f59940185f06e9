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


@pytest.mark.parametrize(
    ("formatter", "value"),
    [
        (BytesFormatter(), 5),
        (BytesFormatter(), "text"),
        (BytesFormatter(), True),
        (TextFormatter(), 5),
        (TextFormatter(), b"bytes"),
        (JsonFormatter(), b"bytes"),
        (JsonFormatter(), {1, 2}),
        (MsgpackFormatter(), object()),
    ],
)
def test_an_object_of_another_type_is_refused_and_not_sent_as_something_else(formatter, value):
    with pytest.raises(TypeError):
        encoded(formatter, value)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}])
def test_what_is_no_json_is_not_written_as_json(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded(JsonFormatter(), value)
