"""The words of a file transfer, byte by byte; the page shows the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import crc32c
import msgspec
import pytest

from dray.errors import ProtocolError
from dray.wire import transfer_frames as words
from dray.wire.frames import encode_frame

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "transfer.md"
GOLDEN = {
    words.Handshake("c", 6, resume=True): "9401a16306c3",
    words.Acked("c", 7, 2): "9402a1630702",
    words.Wanted("c", 7, 300): "9403a16307cd012c",
    words.Verified("c"): "9204a163",
    words.Spoiled("c"): "9205a163",
    words.Suspended("c"): "9206a163",
    words.Resumed("c"): "9207a163",
    words.Cancelled("c", "e", "s"): "9408a163a165a173",
    words.Joined("c", "1", 7, 6, ("h", 80, "t")): "9709a163a131070693a16850a174c400",
    words.Joined("c", "1", 7, 6, ("h", 80, "t"), b"d"): "9709a163a131070693a16850a174c40164",
    words.Joined("c", "1", 7, 0): "9709a163a1310700c0c400",
    words.JoinRefused("c", "no"): "930aa163a26e6f",
    words.Fragment("c", 3, 1): "940ba1630301",
    words.Farewell("c"): "920ca163",
    words.DirectOpening("c", "t"): "930da163a174",
}


@pytest.mark.parametrize("message", GOLDEN, ids=lambda message: type(message).__name__)
def test_a_message_has_the_bytes_that_it_always_had(message):
    assert words.encode_message(message).hex() == GOLDEN[message]
    assert words.decode_message(bytes.fromhex(GOLDEN[message])) == message


def test_what_said_nothing_of_certificates_is_still_understood():
    said = bytes.fromhex("9609a163a131070693a16850a174")
    assert words.decode_message(said) == words.Joined("c", "1", 7, 6, ("h", 80, "t"))


def test_every_message_has_golden_bytes_and_stands_on_the_page():
    kinds = {type(message) for message in GOLDEN}
    assert kinds == set(words.AnyMessage.__args__)
    text = PAGE.read_text("utf-8")
    for kind in kinds:
        assert f"| {kind.__struct_config__.tag} | {kind.__name__} |" in text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        bytes.fromhex("9401a16306"),
        bytes.fromhex("9263a163"),
        bytes.fromhex("9204a0"),
        msgspec.msgpack.encode([2, "c", 0, -1]),
        msgspec.msgpack.encode([4, "k" * 65]),
        b"\x91" * 10_000,
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ProtocolError):
        words.decode_message(data)


def test_the_page_shows_a_whole_frame():
    body = b"hello"
    message = words.encode_message(words.Fragment("c", 3, crc32c.crc32c(body)))
    frame = encode_frame(words.Post("", message), 0, len(body)) + body
    text = PAGE.read_text("utf-8")
    drawn = text.split("on a direct connection:")[1].split("```")[1]
    shown = "".join(
        re.match(r"\s*((?:[0-9a-f]{2} ?)*)", line)[1] for line in drawn.strip("\n").splitlines()
    )
    assert bytes.fromhex(shown) == frame, frame.hex(" ")
