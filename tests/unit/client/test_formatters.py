"""Formatters give back what they were given."""

from __future__ import annotations

import pytest

from dray.client.formatters import BytesFormatter, JsonFormatter, MsgpackFormatter, TextFormatter


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
    encoded = formatter.encode(value)
    assert isinstance(encoded, bytes)
    assert formatter.decode(encoded) == value
