"""Previews of bodies: by bytes, bounded, and nothing of a sender is trusted."""

from __future__ import annotations

import io
import resource
import struct
import tracemalloc

import pytest

from dray.console.pages.previews import PREVIEW_BYTES_MAX, Preview, parquet_of, preview_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08"


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
        (PNG, "picture"),
        (b"\x00\x01\x02", "hex"),
        (b"text with \x1b[31m of a terminal", "hex"),
    ],
)
def test_the_bytes_tell_the_kind(body, kind):
    assert preview_of(body[:PREVIEW_BYTES_MAX], len(body)).kind == kind


def test_half_a_picture_is_none():
    body = PNG + bytes(PREVIEW_BYTES_MAX)
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


def rows_of(data: bytes):
    return parquet_of(len(data), lambda offset, length: data[offset : offset + length])


def test_what_only_looks_like_parquet_has_no_rows():
    assert rows_of(b"PAR1 and nothing else PAR1") is None


def test_the_first_rows_of_parquet_are_a_table():
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(arrow.table({"n": list(range(500)), "t": [None] * 500}), file)
    found = rows_of(file.getvalue())
    assert found is not None
    assert found.columns == ("n", "t")
    assert len(found.rows) == 50
    assert found.rows[3] == ("3", "")
    assert found.note == "Parquet, 500 rows"


def test_a_small_parquet_file_that_unpacks_to_a_gigabyte_takes_little_memory_and_has_no_rows():
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for characters in (1 << 20, 300 << 20):
        file = io.BytesIO()
        table = arrow.table({"s": arrow.array(["x" * characters])})
        parquet.write_table(
            table, file, compression="zstd", use_dictionary=False, write_statistics=False
        )
        assert len(file.getvalue()) < 100_000
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = rows_of(file.getvalue())
        assert (found is None) == (characters == 300 << 20)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - own < 64 << 10


def test_json_that_spells_half_a_character_is_shown_as_its_text():
    body = b'{"a": "\\ud800"}'
    assert preview_of(body, len(body)) == Preview("text", body.decode())


def png(width, height):
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def jpeg(width, height):
    notes = b"\xff\xe1" + struct.pack(">H", 5_000) + bytes(4_998)
    return b"\xff\xd8" + notes + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width)


def webp(kind, rest):
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + rest


def bits(width, height):
    packed = (width - 1) | (height - 1) << 14
    return b"\x2f" + packed.to_bytes(4, "little") + bytes(5)


def lossy(width, height):
    return bytes(6) + struct.pack("<HH", width, height)


def wide(width, height):
    return bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


PICTURES = {
    "png": png,
    "gif": lambda width, height: b"GIF89a" + struct.pack("<HH", width, height),
    "bmp": lambda width, height: b"BM" + bytes(16) + struct.pack("<ii", width, -height),
    "jpeg": jpeg,
    "webp, lossy": lambda width, height: webp(
        b"VP8 ", bytes(6) + struct.pack("<HH", width, height)
    ),
    "webp, lossless": lambda width, height: webp(b"VP8L", bits(width, height)),
    "webp, extended": lambda width, height: webp(b"VP8X", wide(width, height)),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_with_more_pixels_than_a_browser_can_hold_is_not_shown(kind):
    small, large = PICTURES[kind](640, 480), PICTURES[kind](12_000, 12_000)
    assert preview_of(small, len(small)).kind == "picture"
    assert preview_of(large, len(large)).kind == "long picture"
    broken = small[:20]
    assert preview_of(broken, len(broken)).kind in ("picture", "long picture")


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_that_does_not_say_its_size_is_not_shown(kind):
    head = PICTURES[kind](0, 480) if kind in ("png", "gif", "bmp") else PICTURES[kind](1, 1)[:17]
    assert preview_of(head, len(head)).kind == "long picture"


def test_json_that_would_grow_when_it_is_indented_is_shown_as_it_was_sent():
    body = b"[" * 900 + b"1," * 30_000 + b"1" + b"]" * 900
    tracemalloc.start()
    found = preview_of(body, len(body))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert (found.kind, found.text) == ("json", body.decode())
