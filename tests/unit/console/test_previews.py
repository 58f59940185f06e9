"""Previews of bodies: by bytes, bounded, and nothing of a sender is trusted."""

from __future__ import annotations

import io

import pytest

from dray.console.pages.previews import PREVIEW_BYTES_MAX, parquet_of, preview_of


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "empty"),
        (b"plain words", "text"),
        ("Grüße".encode(), "text"),
        (b"<html><script>alert(1)</script>", "text"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text"),
        (b'{"a": [1, 2]}', "json"),
        (b'{"a": broken', "text"),
        (b"[" * 100_000, "text"),
        (b"a,b\n1,2\n3,4\n", "table"),
        (b"a;b\n1;2\n", "table"),
        (b"one, two\nthree\n", "text"),
        (b"\x89PNG\r\n\x1a\nrest", "picture"),
        (b"\x00\x01\x02", "hex"),
        (b"text with \x1b[31m of a terminal", "hex"),
    ],
)
def test_the_bytes_tell_the_kind(body, kind):
    assert preview_of(body[:PREVIEW_BYTES_MAX], len(body)).kind == kind


def test_half_a_picture_is_none():
    body = b"\x89PNG\r\n\x1a\n" + bytes(PREVIEW_BYTES_MAX)
    found = preview_of(body[:PREVIEW_BYTES_MAX], len(body))
    assert (found.kind, found.note) == ("long picture", "image/png")
    assert preview_of(body[:PREVIEW_BYTES_MAX], PREVIEW_BYTES_MAX).kind == "picture"


def test_text_that_is_cut_within_a_character_is_text():
    body = "ü".encode() * PREVIEW_BYTES_MAX
    assert preview_of(b"x" + body[: PREVIEW_BYTES_MAX - 1], len(body)).kind == "text"


def test_a_table_shows_fifty_rows_and_cuts_long_cells():
    body = b"a,b\n" + b"x" * 500 + b",2\n" + b"1,2\n" * 100
    found = preview_of(body, len(body), "a.csv")
    assert found.columns == ("a", "b")
    assert len(found.rows) == 50
    assert len(found.rows[0][0]) == 201


def test_the_last_line_of_a_part_of_a_table_is_left_out():
    found = preview_of(b"a,b\n1,2\n3,4", 10_000)
    assert found.rows == (("1", "2"),)


def test_hexadecimal_shows_offset_bytes_and_text():
    found = preview_of(bytes(range(32)), 32)
    assert found.text.splitlines()[1].startswith("00000010  10 11 12")


def test_what_only_looks_like_parquet_has_no_rows():
    assert parquet_of(io.BytesIO(b"PAR1 and nothing else PAR1")) is None


def test_the_first_rows_of_parquet_are_a_table():
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(arrow.table({"n": list(range(500)), "t": [None] * 500}), file)
    found = parquet_of(file)
    assert found is not None
    assert found.columns == ("n", "t")
    assert len(found.rows) == 50
    assert found.rows[3] == ("3", "")
    assert found.note == "Parquet, 500 rows"
