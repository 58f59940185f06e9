"""Streams share a line by turns: none waits for another's long frame, none is starved."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.daemon.limits import (
    SHARE_BYTES_MAX,
    SHARE_BYTES_MIN,
    SHARE_QUICK_TURNS,
    SHARE_SLOW_TURNS,
)
from dray.daemon.sockets.lanes import HeapRange, Lanes, Share
from dray.model.limits import FRAME_CHANNELS_MAX
from dray.store.heap.heap import Extent
from dray.wire.frames import Continuation, Cut, Done, encode_frame
from dray.wire.peer_frames import Data
from tests.unit.wire.speech import heard

FILE = bytes(index * 7 % 251 for index in range(1 << 20))
LONG = 5 * SHARE_BYTES_MIN


def put(lanes: Lanes, lane: int, size: int, mark: int = 0) -> None:
    """A frame of lane `lane` with `size` bytes of the heap file in its body."""
    head = Data(lane, mark, 0, [])
    body = [HeapRange(Extent(1, 0, size), in_kernel=True)] if size else []
    lanes.put(lane, encode_frame(head, 0, size), body)


def sent(parts) -> bytes:
    """What parts are on the wire."""
    return b"".join(
        FILE[part.offset : part.offset + part.left] if isinstance(part, HeapRange) else bytes(part)
        for part in parts
    )


def turns(lanes: Lanes) -> list[list]:
    """All that is left, turn by turn."""
    return list(iter(lanes.take, []))


def of_lane(said, lane):
    return [(head.sequence_id, len(body)) for head, _, body in said if head.stream == lane]


frames = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.one_of(st.integers(0, 100), st.integers(0, LONG)),
        st.integers(0, 3),
    ),
    max_size=20,
)


@given(frames)
def test_every_frame_arrives_whole_and_in_the_order_of_its_lane(said):
    lanes, parts = Lanes(), []
    for number, (lane, size, taken) in enumerate(said):
        put(lanes, lane, size, number)
        for _ in range(taken):
            parts += lanes.take()
    parts += itertools.chain.from_iterable(turns(lanes))
    arrived = heard(sent(parts))
    for lane in range(7):
        expected = [(number, size) for number, (of, size, _) in enumerate(said) if of == lane]
        assert of_lane(arrived, lane) == expected
    assert all(body == FILE[: len(body)] for _, _, body in arrived)
    assert sum(isinstance(part, HeapRange) and part.pinned for part in parts) == sum(
        size > 0 for _, size, _ in said
    )
    assert (len(lanes), lanes.bytes_in_memory) == (0, 0)


@given(frames, st.integers(0, 30))
def test_what_is_dropped_gives_back_each_pin_once(said, taken):
    lanes, parts = Lanes(), []
    for lane, size, _ in said:
        put(lanes, lane, size)
    for _ in range(taken):
        parts += lanes.take()
    parts += lanes.drop()
    pins = sum(isinstance(part, HeapRange) and part.pinned for part in parts)
    assert pins == sum(size > 0 for _, size, _ in said)
    assert (len(lanes), lanes.bytes_in_memory, lanes.take()) == (0, 0, [])


def test_bytes_in_memory_are_cut_like_those_of_heap_files():
    lanes = Lanes()
    lanes.put(1, encode_frame(Data(1, 9, 0, []), 0, LONG), [memoryview(FILE[:LONG])])
    assert lanes.bytes_in_memory > LONG
    first = lanes.take()
    assert lanes.bytes_in_memory == LONG - SHARE_BYTES_MIN
    ((_, _, body),) = heard(sent(itertools.chain(first, *turns(lanes))))
    assert body == FILE[:LONG]
    assert lanes.bytes_in_memory == 0


def test_a_small_frame_goes_next_whatever_is_under_way():
    lanes = Lanes()
    for lane in range(3):
        put(lanes, lane, LONG)
    for _ in range(4):
        lanes.take()
    put(lanes, 9, 100, mark=5)
    ((head, _, body),) = heard(sent(lanes.take()))
    assert (head.stream, head.sequence_id, len(body)) == (9, 5, 100)


def test_no_turn_is_longer_than_two_shares():
    lanes = Lanes()
    for lane, size in ((1, LONG), (2, SHARE_BYTES_MIN - 200), (2, SHARE_BYTES_MIN - 200), (3, 100)):
        put(lanes, lane, size)
    assert max(len(sent(parts)) for parts in turns(lanes)) < 2 * SHARE_BYTES_MIN


def test_two_long_frames_take_turns():
    lanes = Lanes()
    put(lanes, 1, LONG)
    put(lanes, 2, LONG)
    channels = [part[-1] for parts in turns(lanes) for part in parts if is_piece(part)]
    assert channels[::2] == channels[:1] * 5
    assert channels[1::2] == channels[1:2] * 5
    assert channels[0] != channels[1]


def is_piece(part) -> bool:
    return not isinstance(part, HeapRange) and part[5] == Continuation.code


def test_a_stream_of_small_frames_does_not_starve_a_long_one():
    lanes = Lanes()
    put(lanes, 1, LONG)
    put(lanes, 2, 100)
    for _ in range(10):
        # As soon as one is gone the next is there: the lane is never fresh again.
        lanes.take()
        put(lanes, 2, 100)
    rest = sent(itertools.chain.from_iterable(turns(lanes)))
    assert rest.count(b"DRAY\x01\x08") == 0, "the long frame had its turns meanwhile"


def test_no_more_frames_are_cut_at_a_time_than_a_peer_takes():
    lanes = Lanes()
    for lane in range(5):
        put(lanes, lane, LONG)
    left: dict[int, int] = {}
    channel = -1
    most = 0
    for part in itertools.chain.from_iterable(turns(lanes)):
        if isinstance(part, HeapRange):
            left[channel] -= part.left
            if not left[channel]:
                del left[channel]
        elif part[5] == Cut.code:
            assert part[-1] not in left
            left[part[-1]] = LONG
            most = max(most, len(left))
        elif part[5] == Continuation.code:
            channel = part[-1]
    assert (most, left) == (FRAME_CHANNELS_MAX, {})


@pytest.mark.parametrize("size", [SHARE_BYTES_MIN // 2, SHARE_BYTES_MIN])
def test_a_frame_without_a_body_is_never_cut(size):
    lanes = Lanes()
    lanes.put(1, encode_frame(Done(1)) + bytes(size), [])
    assert len(lanes.take()) == 1


def on_a_line(rate: float, buffered: int, turns_of_it: int) -> Share:
    """A share after so many turns on a line; what fits the buffers before it goes at once."""
    share, left = Share(), buffered
    for _ in range(turns_of_it):
        free, before = min(left, share.size), share.size
        left -= free
        share.took(share.size, (share.size - free) / rate)
        # What the socket may hold unsent grows with the share.
        left += max(0, share.size - before)
    return share


@pytest.mark.parametrize(
    ("rate", "share"),
    [
        (1e6, SHARE_BYTES_MIN),
        (12.5e6, SHARE_BYTES_MIN),
        (1e9, SHARE_BYTES_MAX),
        (1e12, SHARE_BYTES_MAX),
    ],
)
@pytest.mark.parametrize("buffered", [0, 4 * SHARE_BYTES_MIN])
def test_a_share_is_what_the_line_carries_in_five_milliseconds(rate, share, buffered):
    assert on_a_line(rate, buffered, 100).size == share


@pytest.mark.parametrize("rate", [10**exponent for exponent in range(5, 12)])
def test_a_share_settles_and_does_not_swing(rate):
    sizes = {on_a_line(rate, 0, turn).size for turn in range(150, 200)}
    assert len(sizes) == 1


def test_buffers_before_a_slow_line_do_not_make_it_look_fast():
    sizes = [
        on_a_line(12.5e6, SHARE_QUICK_TURNS * SHARE_BYTES_MIN, turn).size for turn in range(50)
    ]
    assert max(sizes) <= 2 * SHARE_BYTES_MIN
    assert sizes[-1] == SHARE_BYTES_MIN


def test_a_line_that_has_become_slow_has_small_shares_after_a_few_turns():
    share = on_a_line(1e12, 0, 100)
    for _ in range(SHARE_SLOW_TURNS * 4):
        share.took(share.size, share.size / 12.5e6)
    assert share.size == SHARE_BYTES_MIN


def test_one_slow_turn_is_forgiven():
    share = on_a_line(1e12, 0, 100)
    for _ in range(100):
        assert not share.took(share.size, 1.0)
        assert not share.took(share.size, 0.0)


def test_small_turns_say_nothing_about_the_line():
    share = Share()
    for _ in range(100):
        assert not share.took(SHARE_BYTES_MIN - 1, 0.0)
