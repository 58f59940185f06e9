"""Everything that can be said on the wire, for Hypothesis, read off the frames themselves."""

from __future__ import annotations

import enum
import types
import typing

from hypothesis import strategies as st

from dray.wire.frames import FRAME_TYPES, Continuation, Cut, encode_frame
from dray.wire.stream import READ_BYTES, FrameStream

_SIMPLE = {
    bool: st.booleans(),
    int: st.integers(0, (1 << 64) - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    type(None): st.none(),
}


def values(kind):
    """Values of an annotation."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return within(*inner)
    if origin is list:
        return st.lists(values(inner[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values, inner))
    if isinstance(kind, typing.NewType):
        return values(kind.__supertype__)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    return structs(kind)


def within(kind, bounds):
    """Values of a kind within the bounds that a frame sets."""
    if kind is str:
        longest = 20 if bounds.max_length is None else min(20, bounds.max_length)
        return st.text(min_size=bounds.min_length or 0, max_size=longest)
    if kind is bytes:
        return st.binary(max_size=bounds.max_length)
    if kind is float:
        return st.floats(bounds.ge, bounds.le, allow_nan=False)
    if typing.get_origin(kind) is list:
        longest = 4 if bounds.max_length is None else bounds.max_length
        (item,) = typing.get_args(kind)
        return st.lists(values(item), min_size=bounds.min_length or 0, max_size=longest)
    return st.integers(bounds.ge or 0, (1 << 64) - 1 if bounds.le is None else bounds.le)


def structs(kind):
    """Structs of a class."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names = getattr(kind, "_fields", None) or kind.__struct_fields__
    return st.builds(kind, **{name: values(hints[name]) for name in names})


whole = [cls for cls in FRAME_TYPES.values() if cls not in (Cut, Continuation)]
heads = st.sampled_from(sorted(whole, key=lambda cls: cls.code)).flatmap(structs)
bodies = st.one_of(
    st.binary(max_size=100),
    st.integers(0, 200_000).map(lambda size: bytes(size % 251 for _ in range(1)) * size),
)
spoken = st.tuples(heads, st.integers(0, (1 << 32) - 1), bodies)


def encoded(head, request_id=0, body=b""):
    return encode_frame(head, request_id, len(body)) + body


def heard(data, cuts=(), grant=None):
    """What a stream makes of bytes that come in pieces, as (head, request id, body).

    The memory that it shares with others is overwritten between two pieces.
    """
    shared = bytearray(READ_BYTES)
    stream = FrameStream(shared, grant or (lambda _: True))
    frames, start = [], 0

    def take(whole):
        for frame in whole:
            frames.append((frame.head, frame.request_id, bytes(frame.body)))
            stream.give_back(frame.body)
        shared[:] = bytes([0xEE]) * len(shared)

    for end in [*sorted(cuts), len(data)]:
        while start < end:
            while stream.waits_for:
                take(stream.go_on())
            room = stream.buffer()
            count = min(len(room), end - start)
            room[:count] = data[start : start + count]
            start += count
            take(stream.received(count))
    while stream.waits_for:
        take(stream.go_on())
    return frames


def fed_until_it_waits(stream, data):
    """Frames, and the data that a stream left because it waits for memory."""
    frames, start = [], 0
    while start < len(data) and not stream.waits_for:
        room = stream.buffer()
        count = min(len(room), len(data) - start)
        room[:count] = data[start : start + count]
        start += count
        frames += stream.received(count)
    return frames, data[start:]
