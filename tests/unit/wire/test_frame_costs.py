"""What a frame costs its reader is bounded by its type, whatever its sender put into it."""

from __future__ import annotations

import struct
import tracemalloc

import crc32c
import msgspec
import pytest

from dray.errors import ProtocolError
from dray.manager.dispatch import FROM_CALLERS
from dray.model.limits import FIRST_HEAD_BYTES_MAX, FRAME_HEAD_BYTES_MAX, KIB, MIB
from dray.wire import frames, message_frames, peer_frames, queue_frames
from dray.wire.frames import encode_frame
from dray.wire.head import Head
from dray.wire.stream import FrameStream

MANY = struct.Struct(">I")


def framed(kind: type[Head], head: bytes, body: bytes = b"") -> bytes:
    """A frame with any head whatever, and a checksum that fits."""
    checked = struct.pack("<4sBBHIII", b"DRAY", 1, kind.code, 0, 7, len(head), len(body))
    crc = crc32c.crc32c(head, crc32c.crc32c(checked))
    return checked + crc.to_bytes(4, "little") + head + body


def hear(stream: FrameStream, data: bytes) -> list[Head]:
    heads = []
    view = memoryview(data)
    while view:
        buffer = stream.buffer()
        count = min(len(buffer), len(view))
        buffer[:count] = view[:count]
        heads += [frame.head for frame in stream.received(count)]
        view = view[count:]
    return heads


def caller() -> FrameStream:
    return FrameStream(caller_says=FROM_CALLERS)


def greeted() -> FrameStream:
    stream = caller()
    hear(stream, encode_frame(frames.Hello("client")))
    return stream


@pytest.mark.parametrize("kind", frames.FRAME_TYPES.values(), ids=lambda kind: kind.__name__)
def test_before_hello_no_head_of_another_type_is_read(kind, monkeypatch):
    monkeypatch.setattr("dray.wire.stream.decode_head", None)
    if kind is not frames.Hello:
        with pytest.raises(ProtocolError, match=f"began with {kind.__name__}, not with Hello"):
            hear(caller(), framed(kind, b"\x90"))


def test_a_hello_is_not_longer_than_4_kib():
    whole = encode_frame(frames.Hello("client", name="x" * 4_000))
    assert hear(caller(), whole) == [frames.Hello("client", name="x" * 4_000)]
    too_long = encode_frame(frames.Hello("client", name="x" * FIRST_HEAD_BYTES_MAX))
    with pytest.raises(ProtocolError, match="longer than the limit"):
        hear(caller(), too_long[:24])
    with pytest.raises(ProtocolError, match="longer than the limit"):
        hear(caller(), encode_frame(frames.Hello("client"), 0, 1))


def test_a_caller_does_not_say_what_only_a_manager_answers(monkeypatch):
    stream = greeted()
    monkeypatch.setattr("dray.wire.stream.decode_head", None)
    with pytest.raises(ProtocolError, match="a caller may not send QueueList here"):
        hear(
            stream, framed(queue_frames.QueueList, b"\x91\xdd" + MANY.pack(1 << 20) + b"\x90" * 100)
        )


def test_a_frame_in_pieces_is_of_a_type_that_a_caller_may_say():
    inner = framed(queue_frames.QueueList, b"\x91\x90")
    inner = struct.pack("<4sBBHIII", b"DRAY", 1, queue_frames.QueueList.code, 0, 7, 2, 10)
    inner += crc32c.crc32c(b"\x91\x90", crc32c.crc32c(inner)).to_bytes(4, "little") + b"\x91\x90"
    with pytest.raises(ProtocolError, match="a caller may not send QueueList here"):
        hear(greeted(), encode_frame(frames.Cut(0), 0, len(inner)) + inner)


@pytest.mark.parametrize("kind", frames.FRAME_TYPES.values(), ids=lambda kind: kind.__name__)
def test_only_a_head_with_pages_is_longer_than_64_kib(kind):
    fixed = struct.pack("<4sBBHIIII", b"DRAY", 1, kind.code, 0, 7, FRAME_HEAD_BYTES_MAX + 1, 0, 0)
    if kind.pages:
        frames.read_frame_header(fixed)
    else:
        with pytest.raises(ProtocolError, match="longer than the limit"):
            frames.read_frame_header(fixed)


def colliding_keys(count: int) -> bytes:
    """A map whose keys have one hash: numbers that are one modulo the size of a hash."""
    return (
        b"\xde"
        + struct.pack(">H", count)
        + b"".join(
            b"\xcf" + struct.pack(">Q", each * ((1 << 61) - 1)) + b"\x01"
            for each in range(1, count)
        )
    )


EMPTY_LISTS = b"\xdd" + MANY.pack(3 * MIB) + b"\x90" * (3 * MIB)
ATTACKS = {
    "colliding keys": (frames.Failed, b"\x93\xa0\xa0\x81\xa1x" + colliding_keys(8)),
    "empty lists in a field": (frames.Failed, b"\x93\xa0\xa0\x81\xa1x" + EMPTY_LISTS),
    "empty lists as holes": (peer_frames.RepairAnswer, b"\x93\x01\x01" + EMPTY_LISTS),
    "empty lists as envelopes": (peer_frames.Data, b"\x94\x01\x01\x01" + EMPTY_LISTS),
    "millions of sizes": (message_frames.Send, b"\x94\x01\x00" + EMPTY_LISTS + b"\x90"),
    "millions of ranges": (
        peer_frames.RepairAnswer,
        b"\x93\x01\x01\xdd" + MANY.pack(MIB) + b"\x92\x01\x02" * MIB,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_a_head_that_was_made_to_cost_much_costs_its_bytes_only(name):
    """4 MiB of empty lists took 366 MB and seconds; keys with one hash quadratic time."""
    kind, head = ATTACKS[name]
    data = framed(kind, head)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            frames.decode_head(frames.read_frame_header(data), memoryview(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(head) + 256 * KIB


@pytest.mark.parametrize("code", sorted(FROM_CALLERS))
def test_no_list_of_a_caller_is_without_a_bound_of_its_entries(code):
    """10,000 entries are read in some ten milliseconds; a page without a bound has millions."""
    info = msgspec.inspect.type_info(frames.FRAME_TYPES[code])
    lists = [
        field
        for field in info.fields
        if isinstance(field.type, msgspec.inspect.ListType) and field.type.max_length is None
    ]
    pages = frames.FRAME_TYPES[code].pages
    assert not (lists and pages), [field.name for field in lists]
