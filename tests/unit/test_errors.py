"""Errors are one clear sentence, whatever a file or a peer is called."""

from __future__ import annotations

import copy

import pytest

from dray.errors import SourceUnreadable, from_code


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\u202eb", "a\\u202eb"),
        ("a\udcffb", "a\\udcffb"),
        ("größer als 1 €", "größer als 1 €"),
    ],
)
def test_an_error_is_one_line_and_shows_control_characters_escaped(name: str, shown: str) -> None:
    error = SourceUnreadable(f"{name} is missing; name another file", path=name)
    assert str(error) == f"{shown} is missing; name another file"
    assert error.fields["path"] == name
    assert str(copy.copy(error)) == str(error)
    assert str(from_code(error.code, f"{name} is missing", {})) == f"{shown} is missing"
