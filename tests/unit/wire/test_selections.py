"""A selection carries the values of its own kind, and nothing can be read as another."""

from __future__ import annotations

import msgspec
import pytest

from dray.errors import ProtocolError
from dray.wire.frames import decode_head, encode_frame, read_frame_header
from dray.wire.large_frames import LargeReceive
from dray.wire.message_frames import Receive
from dray.wire.selections import (
    SelectAt,
    SelectByCorrelation,
    SelectById,
    SelectBySequence,
    SelectFirst,
    SelectNext,
    SelectRange,
    told,
)

BYTES = {
    SelectFirst(): b"\x91\x00",
    SelectById("a"): b"\x92\x01\xa1a",
    SelectByCorrelation("5"): b"\x92\x02\xa15",
    SelectAt(5): b"\x92\x03\x05",
    SelectNext(5): b"\x93\x04\x05\xc0",
    SelectNext(5, 7): b"\x93\x04\x05\x07",
    SelectRange(5): b"\x92\x05\x05",
    SelectBySequence("s"): b"\x92\x06\xa1s",
}


def read(head):
    encoded = memoryview(encode_frame(head))
    return decode_head(read_frame_header(encoded), encoded)


@pytest.mark.parametrize(("select", "image"), BYTES.items(), ids=str)
def test_a_selection_keeps_its_bytes(select, image):
    assert msgspec.msgpack.encode(select) == image


@pytest.mark.parametrize("select", [each for each in BYTES if type(each) is not SelectBySequence])
def test_a_receive_carries_every_selection(select):
    head = Receive(1, 0, None, select=select)
    assert read(head) == head


@pytest.mark.parametrize("select", [SelectFirst(), SelectByCorrelation("c"), SelectBySequence("s")])
def test_a_large_receive_carries_what_names_a_large_message(select):
    head = LargeReceive(1, 0, None, select)
    assert read(head) == head


@pytest.mark.parametrize("priority", [0, 7])
def test_the_lowest_and_the_highest_priority_can_be_asked_for(priority):
    head = Receive(1, 0, None, select=SelectNext(0, priority))
    assert read(head) == head


@pytest.mark.parametrize("wrong", [-1, 8, "5", "\u0665", 5.5])
def test_a_priority_is_a_number_from_0_to_7(wrong):
    with pytest.raises(ProtocolError, match="Receive"):
        read(Receive(1, 0, None, select=SelectNext(0, wrong)))


@pytest.mark.parametrize("wrong", [[7], ["first", "", 0], [1, 5], [3, "5"], [5], []])
def test_what_is_no_selection_is_refused(wrong):
    with pytest.raises(ProtocolError, match="Receive"):
        read(Receive(1, 0, None, select=wrong))


@pytest.mark.parametrize(
    ("select", "words"),
    [
        (SelectById("a\\1"), r"id 'a\\1'"),
        (SelectByCorrelation("c"), "correlation id 'c'"),
        (SelectAt(5), "lookup id 5"),
        (SelectBySequence("a\\2"), r"sequence id 'a\\2'"),
    ],
)
def test_a_selection_is_told_by_name_and_value(select, words):
    assert told(select) == words
