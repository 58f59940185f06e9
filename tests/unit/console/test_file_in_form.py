"""The file in a form, whatever pieces the request comes in."""

from __future__ import annotations

import asyncio

import pytest

from dray.console.sample.sending import FormWithFile
from dray.errors import Misuse

KIND = "multipart/form-data; boundary=----xyz"


def form(body, name="f.bin", fragment_size="100"):
    return (
        b'------xyz\r\nContent-Disposition: form-data; name="fragment_size"\r\n\r\n'
        + fragment_size.encode()
        + f'\r\n------xyz\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n".encode()
        + body
        + b"\r\n------xyz--\r\n"
    )


def read(data, piece=1 << 20, kind=KIND):
    async def pieces():
        for start in range(0, len(data), piece):
            yield data[start : start + piece]

    async def run():
        found = FormWithFile(kind, pieces())
        chunks = await found.file()
        return found, b"".join([chunk async for chunk in chunks])

    return asyncio.run(run())


BODIES = [b"", b"hello", b"\r\n", b"\r\n------xy", b"a\r\n--b\r\n------xyq", bytes(range(256)) * 40]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 1 << 20])
def test_the_file_is_what_was_sent_whatever_pieces_come(body, piece):
    found, given = read(form(body), piece)
    assert given == body
    assert found.file_name == "f.bin"
    assert found.fields == {"fragment_size": "100"}


def test_a_name_with_quotes_and_other_letters_is_read():
    assert read(form(b"x", name="%22ä&.png"))[0].file_name == '"ä&.png'


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (form(b"x"), "application/x-www-form-urlencoded"),
        (form(b"x"), "multipart/form-data"),
        (form(b"hello")[:-12], KIND),
        (form(b"hello")[:60], KIND),
        (b"", KIND),
        (b"junk" * 100, KIND),
        (b"------xyz\r\nno: name\r\n\r\nx\r\n------xyz--\r\n", KIND),
        (b"------xyz\r\n" + b"h: " + b"a" * 20_000, KIND),
        (form(b"x", fragment_size="1" * 70_000), KIND),
        (form(b"x", name=""), KIND),
        (b"------xyz--\r\n", KIND),
    ],
)
def test_a_form_that_is_broken_or_has_no_file_is_refused_in_a_sentence(data, kind):
    with pytest.raises(Misuse, match=r"use the page of the console|choose one and send again"):
        read(data, kind=kind)
