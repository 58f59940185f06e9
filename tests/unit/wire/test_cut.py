"""A frame in pieces is the frame, whatever comes between; pieces of nothing are refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import ProtocolError
from dray.model.limits import FRAME_CHANNELS_MAX
from dray.wire.frames import Continuation, Cut, Done, encode_frame
from dray.wire.large_frames import Range
from dray.wire.stream import FrameStream
from tests.unit.wire.speech import encoded, fed_until_it_waits, heard, spoken

BEGIN = encode_frame(Range(), 3, 10)


def cut(channel, begin=BEGIN):
    return encoded(Cut(channel), 0, begin)


def piece(channel, body):
    return encoded(Continuation(channel), 0, body)


@st.composite
def in_pieces(draw):
    """Frames, and the same said in pieces with others between them."""
    lines, order = [], []
    for channel in range(FRAME_CHANNELS_MAX):
        line = []
        for head, request_id, body in draw(st.lists(spoken, max_size=2)):
            whole = (head, request_id, body)
            if not body or draw(st.booleans()):
                line.append((encoded(*whole), whole))
                continue
            line.append((cut(channel, encode_frame(head, request_id, len(body))), None))
            places = draw(st.lists(st.integers(1, len(body)), max_size=4))
            bounds = sorted({0, *places, len(body)})
            for start, end in itertools.pairwise(bounds):
                line.append((piece(channel, body[start:end]), None))
            line[-1] = (line[-1][0], whole)
        lines.append(line)
        order += [channel] * len(line)
    data, expected = b"", []
    for channel in draw(st.permutations(order)):
        said, ends = lines[channel].pop(0)
        data += said
        if ends is not None:
            expected.append(ends)
    return data, expected


@given(in_pieces(), st.data())
def test_frames_in_pieces_come_out_whole_when_their_last_piece_is_there(said, data):
    stream, expected = said
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    assert heard(stream, cuts) == expected


def test_pieces_of_a_long_body_are_read_into_its_own_memory():
    stream = FrameStream()
    size = 300_000
    data = cut(0, encode_frame(Range(), 1, size))
    stream.buffer()[: len(data)] = data
    stream.received(len(data))
    head = piece(0, b"x" * size)[:-size]
    stream.buffer()[: len(head)] = head
    stream.received(len(head))
    assert len(stream.buffer()) == size


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (piece(0, b"x"), "where no frame was cut"),
        (cut(0) + piece(1, b"x"), "channel 1, where no frame was cut"),
        (cut(FRAME_CHANNELS_MAX), "channel 2: it is not free"),
        (cut(-1), "channel -1: it is not free"),
        (cut(0) + cut(0), "channel 0: it is not free"),
        (cut(0) + piece(0, b""), "does not fit the frame"),
        (cut(0) + piece(0, b"x" * 11), "does not fit the frame"),
        (cut(0) + piece(0, b"x" * 4) + piece(0, b"x" * 7), "does not fit the frame"),
        (cut(0) + piece(0, b"x" * 10) + piece(0, b"x"), "where no frame was cut"),
        (cut(0, BEGIN[:23]), "lacks its beginning"),
        (cut(0, BEGIN[:-1]), "does not fit its beginning"),
        (cut(0, BEGIN + b"x"), "does not fit its beginning"),
        (cut(0, encode_frame(Done(1))), "does not fit its beginning"),
        (cut(0, encode_frame(Continuation(0), 0, 5)), "cannot come in pieces"),
        (cut(0, encode_frame(Cut(0), 0, 5)), "cannot come in pieces"),
        (cut(0, b"HTTP" + BEGIN[4:]), "does not speak Dray"),
        (cut(0, BEGIN[:8] + b"\xff" + BEGIN[9:]), "CRC32C does not match"),
    ],
)
def test_what_cannot_be_a_piece_is_refused_with_its_reason(said, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        heard(said)


def test_a_channel_is_free_again_when_its_frame_is_whole():
    said = (cut(0) + piece(0, b"x" * 10)) * 2
    assert heard(said) == [(Range(), 3, b"x" * 10)] * 2


def test_a_cut_frame_waits_for_its_memory_and_goes_on_with_what_came_behind():
    granted = []
    stream = FrameStream(grant=lambda _: bool(granted))
    size = 100_000
    said = cut(0, encode_frame(Range(), 7, size)) + encoded(Done(1), 8) + piece(0, b"x" * size)
    frames, rest = fed_until_it_waits(stream, said)
    assert (frames, stream.waits_for >= size, stream.held_bytes >= size) == ([], True, False)
    assert stream.go_on() == [], "nothing overtakes it while it has no memory"
    granted.append(True)
    frames = [*stream.go_on(), *fed_until_it_waits(stream, rest)[0]]
    assert [(frame.head, len(frame.body)) for frame in frames] == [(Done(1), 0), (Range(), size)]
    assert stream.held_bytes == 0


def test_who_holds_a_cut_frame_is_not_refused_the_memory_to_end_it():
    grants = iter([True])
    stream = FrameStream(grant=lambda _: next(grants, False))
    size = 100_000
    said = cut(0, encode_frame(Range(), 7, size)) + encoded(Range(), 8, b"y" * size)
    frames, _ = fed_until_it_waits(stream, said)
    assert [frame.request_id for frame in frames] == [8]
    assert stream.held_bytes >= size
    frames, _ = fed_until_it_waits(stream, piece(0, b"x" * size) + encoded(Range(), 9, b"y" * size))
    assert [frame.request_id for frame in frames] == [7]
    assert stream.waits_for
