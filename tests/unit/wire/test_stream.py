"""Bytes in any pieces give whole frames, or ProtocolError, and never anything else."""

from __future__ import annotations

import struct
import weakref

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import ProtocolError
from dray.model.limits import (
    FIRST_HEAD_BYTES_MAX,
    FRAME_BODY_BYTES_MAX,
    FRAME_HEAD_BYTES_MAX,
    PAGE_HEAD_BYTES_MAX,
)
from dray.wire.frames import (
    FRAME_HEADER_BYTES,
    FRAME_TYPES,
    Continuation,
    Cut,
    Done,
    Failed,
    Hello,
    encode_frame,
    read_frame_header,
)
from dray.wire.large_frames import Range
from dray.wire.message_frames import Abort
from dray.wire.queue_frames import OpenQueue
from dray.wire.stream import READ_BYTES, UNASKED_BYTES_MAX, FrameStream
from tests.unit.wire.speech import encoded, fed_until_it_waits, heard, spoken


def outcome(data, cuts=()):
    """The frames, or that they are none."""
    try:
        return heard(data, cuts)
    except ProtocolError:
        return ProtocolError


@given(st.lists(spoken, max_size=5), st.data())
def test_what_was_said_is_heard_however_it_is_cut(said, data):
    stream = b"".join(encoded(*frame) for frame in said)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    assert heard(stream, cuts) == said


@given(st.lists(spoken, max_size=5), st.data())
def test_memory_that_is_refused_for_a_while_changes_nothing(said, data):
    stream = b"".join(encoded(*frame) for frame in said)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    moods = data.draw(st.lists(st.booleans(), max_size=20))
    assert heard(stream, cuts, lambda _: moods.pop() if moods else True) == said


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_protocol_error_whole_and_byte_by_byte(data):
    whole = outcome(data)
    by_byte = outcome(data, range(len(data)))
    assert whole == by_byte


@given(st.binary(max_size=60), st.integers(0, 80), st.binary(max_size=200))
def test_any_head_behind_a_good_fixed_part_gives_a_frame_or_a_protocol_error(head, kind, rest):
    fixed = struct.pack("<4sBBHIIII", b"DRAY", 1, kind, 0, 7, len(head), 0, 0)
    assert outcome(fixed + head + rest, range(5)) in (ProtocolError, [])


@given(st.binary(max_size=60), st.sampled_from(sorted(FRAME_TYPES)))
def test_any_head_with_the_right_checksum_is_a_frame_or_a_protocol_error(head, kind):
    checked = struct.pack("<4sBBHIII", b"DRAY", 1, kind, 0, 7, len(head), 0)
    crc = crc32c.crc32c(head, crc32c.crc32c(checked))
    found = outcome(checked + crc.to_bytes(4, "little") + head)
    assert found is ProtocolError or isinstance(found[0][0], FRAME_TYPES[kind])


def test_a_head_nested_beyond_all_measure_is_refused():
    head = b"\x93\xa0\xa0\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"
    checked = struct.pack("<4sBBHIII", b"DRAY", 1, Failed.code, 0, 7, len(head), 0)
    crc = crc32c.crc32c(head, crc32c.crc32c(checked))
    with pytest.raises(ProtocolError, match="cannot be read"):
        heard(checked + crc.to_bytes(4, "little") + head)


@given(spoken, st.data())
def test_a_damaged_head_is_never_taken_for_another(frame, data):
    good = bytearray(encoded(*frame))
    covered = len(good) - len(frame[2])
    at = data.draw(st.integers(0, covered - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    assert outcome(bytes(good)) in (ProtocolError, [])


@given(spoken, st.data())
def test_a_frame_cut_short_is_waited_for(frame, data):
    whole = encoded(*frame)
    kept = data.draw(st.integers(0, len(whole) - 1))
    assert heard(whole[:kept]) == []


def test_the_memory_of_a_large_body_serves_the_next_one():
    stream = FrameStream()
    memories = []
    for each in (200_000, 200_000, 150_000):
        data, start = encoded(Range(), 1, b"x" * each), 0
        while start < len(data):
            room = stream.buffer()
            count = min(len(room), len(data) - start)
            room[:count] = data[start : start + count]
            start += count
            for frame in stream.received(count):
                memories.append(id(frame.body.obj))
                stream.give_back(frame.body)
    assert len(set(memories)) == 1, "of the same length, or of less"


class Memory(bytearray):
    """Memory of which a test can tell whether somebody still has it."""


@pytest.mark.parametrize(("size", "is_kept"), [(READ_BYTES, False), (READ_BYTES + 1, True)])
@pytest.mark.parametrize("let_go", [FrameStream.forget_spare, FrameStream.close])
def test_memory_that_was_given_back_is_kept_only_for_large_bodies_and_can_be_let_go(
    let_go, size, is_kept
):
    stream = FrameStream()
    memory = Memory(size)
    kept = weakref.ref(memory)
    stream.give_back(memoryview(memory))
    del memory
    assert (kept() is not None) == is_kept
    let_go(stream)
    assert kept() is None


def test_a_stream_that_is_closed_holds_no_memory_of_what_was_half_there():
    body, long = encoded(Range(), 1, bytes(400_000)), encoded(LONG)
    cut = encoded(Cut(0), 0, encode_frame(Range(), 3, 400_000))
    for began in (body[:100_000], long[:100_000], cut, cut + body[:100_000], encoded(Done())[:-1]):
        stream = FrameStream()
        fed(stream, began)
        assert stream.held_bytes > 0
        stream.close()
        assert (stream.held_bytes, stream.progress) == (0, 1)


def test_frames_that_are_exactly_as_long_as_they_may_be_are_made_and_read():
    longest = OpenQueue("x" * (FRAME_HEAD_BYTES_MAX - len(encoded_head(OpenQueue(""))) - 2))
    assert len(encoded_head(longest)) == FRAME_HEAD_BYTES_MAX
    said = [(longest, 1, b""), (Range(), 2, bytes(FRAME_BODY_BYTES_MAX))]
    assert heard(b"".join(encoded(*frame) for frame in said)) == said


def encoded_head(head):
    return encoded(head)[FRAME_HEADER_BYTES:]


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_first_frame_of_a_caller_may_be_so_long_and_no_longer(beyond):
    empty = len(encoded_head(Hello("client", name="n" * 300)))
    hello = Hello("client", name="n" * (300 + FIRST_HEAD_BYTES_MAX - empty + beyond))
    assert len(encoded_head(hello)) == FIRST_HEAD_BYTES_MAX + beyond
    stream = FrameStream(caller_says=frozenset())
    if beyond:
        with pytest.raises(ProtocolError, match="longer than the limit"):
            fed(stream, encoded(hello))
    else:
        assert [frame.head for frame in fed(stream, encoded(hello))] == [hello]


def test_bodies_of_one_piece_do_not_share_memory():
    stream = FrameStream()
    data = encoded(Range(), 1, b"one") + encoded(Range(), 2, b"two")
    stream.buffer()[: len(data)] = data
    assert [bytes(frame.body) for frame in stream.received(len(data))] == [b"one", b"two"]


def test_a_head_larger_than_the_buffer_comes_through():
    head = Failed("error", "x" * 300_000)
    assert heard(encoded(Abort(1)) + encoded(head, 3) + encoded(Done(2), 4)) == [
        (Abort(1), 0, b""),
        (head, 3, b""),
        (Done(2), 4, b""),
    ]


@pytest.mark.parametrize(
    ("fixed", "complaint"),
    [
        ((b"HTTP", 1, 5, 0, 0, 0, 0, 0), "does not speak Dray"),
        ((b"\x16\x03\x01\x02", 1, 5, 0, 0, 0, 0, 0), "call it with dray:// instead of drays://"),
        ((b"DRAY", 2, 5, 0, 0, 0, 0, 0), "speaks version 2"),
        ((b"DRAY", 1, 250, 0, 0, 0, 0, 0), "no frame of type 250"),
        ((b"DRAY", 1, 5, 1, 0, 0, 0, 0), "no frame of type 5"),
        ((b"DRAY", 1, 5, 0, 0, FRAME_HEAD_BYTES_MAX + 1, 0, 0), "longer than the limit"),
        ((b"DRAY", 1, 5, 0, 0, 0, FRAME_BODY_BYTES_MAX + 1, 0), "longer than the limit"),
    ],
)
def test_a_bad_beginning_is_refused_with_its_reason(fixed, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        read_frame_header(struct.pack("<4sBBHIIII", *fixed))


def test_a_bad_beginning_is_refused_before_its_body_is_waited_for():
    with pytest.raises(ProtocolError):
        heard(b"GET / HTTP/1.1\r\nHost: x\r\n")


def test_frames_over_the_bounds_are_not_made():
    with pytest.raises(ProtocolError, match="over the bounds"):
        encode_frame(Range(), 1, FRAME_BODY_BYTES_MAX + 1)
    with pytest.raises(ProtocolError, match="over the bounds"):
        encode_frame(OpenQueue("x" * (FRAME_HEAD_BYTES_MAX + 1)))
    with pytest.raises(ProtocolError, match="over the bounds"):
        encode_frame(Failed("e", "x" * (PAGE_HEAD_BYTES_MAX + 1)))


def test_the_fixed_part_is_24_bytes():
    assert FRAME_HEADER_BYTES == 24


def fed(stream, data):
    return fed_until_it_waits(stream, data)[0]


def test_between_frames_nothing_is_held_and_all_the_shared_memory_can_be_read_into():
    stream = FrameStream()
    assert (stream.held_bytes, len(stream.buffer())) == (0, READ_BYTES)
    for said in (encoded(Done()), encoded(Range(), 1, bytes(300_000)), encoded(LONG)):
        assert len(fed(stream, said)) == 1
        assert (stream.held_bytes, len(stream.buffer())) == (0, READ_BYTES)


def test_memory_for_a_cut_frame_is_asked_for_until_there_is_some():
    answers = [False, False, True]
    asked = []

    def grant(size):
        asked.append(size)
        return answers.pop(0)

    stream = FrameStream(grant=grant)
    body = bytes(range(256)) * 400
    assert fed(stream, encoded(Cut(0), 0, encode_frame(Range(), 3, len(body)))) == []
    for times in (1, 2):
        assert (len(asked), stream.waits_for, stream.held_bytes) == (times, asked[0], 0)
        assert stream.go_on() == []
    assert (len(asked), stream.waits_for) == (3, 0)
    assert stream.held_bytes >= len(body)
    (frame,) = fed(stream, encoded(Continuation(0), 0, body))
    assert (frame.request_id, bytes(frame.body)) == (3, body)


def test_pieces_that_came_together_with_a_cut_wait_until_it_has_memory():
    answers = [False, True]
    stream = FrameStream(grant=lambda _: answers.pop(0))
    body = bytes(range(256)) * 80
    said = encoded(Cut(0), 0, encode_frame(Range(), 3, len(body)))
    stream.buffer()[: len(said)] = said
    piece = encoded(Continuation(0), 0, body)
    stream.buffer()[len(said) : len(said) + len(piece)] = piece
    assert stream.received(len(said) + len(piece)) == []
    assert stream.waits_for >= len(body)
    (frame,) = stream.go_on()
    assert (frame.request_id, bytes(frame.body)) == (3, body)


@pytest.mark.parametrize(
    ("spare", "size", "is_used"),
    [
        (READ_BYTES + 2, READ_BYTES + 1, True),
        (READ_BYTES + 1, READ_BYTES + 1, True),
        (READ_BYTES + 1, READ_BYTES + 2, False),
        (READ_BYTES + 1, READ_BYTES, False),
    ],
)
def test_spare_memory_serves_a_large_body_that_it_can_hold_and_no_small_one(spare, size, is_used):
    stream = FrameStream()
    memory = bytearray(spare)
    stream.give_back(memoryview(memory))
    said = encoded(Range(), 1, bytes(size))
    # Not at once: a small body that is whole is never put anywhere else.
    frames = fed(stream, said[:100]) + fed(stream, said[100:])
    assert (frames[0].body.obj is memory) == is_used


LONG = Failed("error", "x" * 300_000)


@pytest.mark.parametrize("said", [encoded(Range(), 1, bytes(100_000)), encoded(LONG)])
def test_memory_for_what_is_long_is_asked_for_before_it_is_taken(said):
    asked = []

    def refuse(size):
        asked.append(size)
        return False

    stream = FrameStream(grant=refuse)
    fed(stream, said[:5000])
    assert asked == [stream.waits_for]
    assert stream.waits_for >= 100_000
    assert stream.held_bytes <= 5000
    stream.go_on()
    assert len(asked) == 2


def test_what_is_held_is_what_was_asked_for():
    granted = []
    for said in (encoded(Range(), 1, bytes(100_000)), encoded(LONG)):
        stream = FrameStream(grant=lambda size: granted.append(size) is None)
        fed(stream, said[:30_000])
        fed(stream, said[30_000:50_000])
        assert stream.held_bytes == granted.pop()
        assert not granted, "it is asked for once"
    stream = FrameStream(grant=lambda size: granted.append(size) is None)
    fed(stream, encoded(Cut(0), 0, encode_frame(Range(), 3, 100_000)))
    fed(stream, encoded(Continuation(0), 0, bytes(100_000))[:50_000])
    assert [stream.held_bytes] == granted, "a piece is read into the memory of its frame"


@pytest.mark.parametrize(
    ("size", "room"), [(READ_BYTES, READ_BYTES), (READ_BYTES + 1, FRAME_BODY_BYTES_MAX)]
)
def test_only_a_large_body_asks_for_memory_that_fits_the_largest(size, room):
    stream = FrameStream(grant=lambda _: False)
    fed(stream, encoded(Range(), 1, bytes(size))[:1000])
    assert stream.waits_for == room


@pytest.mark.parametrize(
    ("size", "is_asked"), [(4000, False), (UNASKED_BYTES_MAX, False), (UNASKED_BYTES_MAX + 1, True)]
)
def test_only_frames_longer_than_a_bound_ask_for_memory(size, is_asked):
    stream = FrameStream(grant=lambda _: False)
    said = encoded(Range(), 1, bytes(size))
    assert not fed(stream, said[:-1])
    assert bool(stream.waits_for) == is_asked
    if not is_asked:
        assert len(fed(stream, said[-1:])) == 1


@pytest.mark.parametrize("beyond", [0, 1])
def test_only_heads_longer_than_a_bound_ask_for_memory(beyond):
    text = UNASKED_BYTES_MAX - len(encoded(Failed("error", "x" * 3000))) + 3000 + beyond
    said = encoded(Failed("error", "x" * text))
    assert len(said) == UNASKED_BYTES_MAX + beyond
    stream = FrameStream(grant=lambda _: False)
    assert not fed(stream, said[:-1])
    assert bool(stream.waits_for) == bool(beyond)


def test_progress_says_how_much_is_there_of_the_frame_that_comes():
    stream = FrameStream()
    assert stream.progress == 1
    body = encoded(Range(), 1, bytes(400_000))
    head = len(body) - 400_000
    fed(stream, body[: head + 100_000])
    assert stream.progress == 0.25
    fed(stream, body[head + 100_000 :])
    assert stream.progress == 1
    long = encoded(LONG)
    fed(stream, long[: len(long) // 2])
    assert stream.progress == (len(long) // 2) / len(long)
    fed(stream, long[len(long) // 2 :])
    assert stream.progress == 1


def test_progress_is_that_of_the_cut_frame_of_which_least_is_there():
    stream = FrameStream()
    for channel, size in ((0, 10), (1, 20)):
        fed(stream, encoded(Cut(channel), 0, encode_frame(Range(), 3, size)))
    for channel, count in ((0, 4), (1, 10)):
        fed(stream, encoded(Continuation(channel), 0, bytes(count)))
    assert stream.progress == 0.4
    fed(stream, encoded(Continuation(0), 0, bytes(6)))
    assert stream.progress == 0.5
    fed(stream, encoded(Range(), 1, bytes(400_000))[:100_000])
    assert 0.24 < stream.progress < 0.25
