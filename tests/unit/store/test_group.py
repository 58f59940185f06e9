"""A group of the log as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.store.log.group import (
    HEADER_BYTES,
    SEAL,
    DirtyRange,
    Group,
    copies_of,
    decode_header,
    encode,
    facts_of,
    group_bytes,
    intact,
    length_before,
    ranges_of,
)

GROUP = Group(
    lsn=1024, watermark=512, first_fact=7, capacity=1 << 20, epoch=3, facts=2, ranges=0, length=0
)


def framed(fact: bytes) -> bytes:
    return length_before(len(fact)) + fact


RANGES = [DirtyRange(1, 0, 100), DirtyRange(9, 50, 4_000_000)]
IMAGE = encode(GROUP, RANGES, framed(b"one") + framed(b""))


def unpadded(image: bytearray) -> bytearray:
    group = decode_header(image)
    assert group is not None
    return image[: group.length]


def test_the_bytes_are_those_of_the_page():
    assert IMAGE[:4] == b"DQML"
    assert IMAGE[4:8] == bytes([1, 0, 0, 0])
    assert int.from_bytes(IMAGE[8:16], "little") == 1024
    assert int.from_bytes(IMAGE[52:56], "little") == HEADER_BYTES + 2 * 12 + 4 + 3 + 4
    assert len(IMAGE) == 512
    assert IMAGE[64:68] == bytes([1, 0, 0, 0])


def test_copies_lie_behind_the_facts_in_the_order_of_their_ranges():
    ranges = [DirtyRange(1, 10, 13), DirtyRange(9, 50, 52), DirtyRange(4, 7, 8)]
    image = encode(GROUP, ranges, framed(b"one") + framed(b""), b"aaabbc")
    group = decode_header(image)
    assert group is not None
    found = [
        (each, image[at : at + each.stop - each.start]) for each, at in copies_of(group, image)
    ]
    assert found == list(zip(ranges, (b"aaa", b"bb", b"c"), strict=True))
    assert len(encode(GROUP, ranges, framed(b"one"), bytes(2000))) == group_bytes(7, 3, 2000)


def test_what_was_encoded_is_decoded():
    group = decode_header(IMAGE)
    assert group == GROUP._replace(ranges=2, length=99)
    assert group.end == 1024 + 512
    assert intact(group, unpadded(IMAGE))
    assert ranges_of(group, IMAGE) == RANGES
    assert list(facts_of(group, IMAGE)) == [b"one", b""]


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(0, 5))
def test_any_facts_come_back(facts, ranges):
    group = GROUP._replace(facts=len(facts), flags=SEAL)
    body = b"".join(map(framed, facts))
    image = encode(group, [DirtyRange(1, 2, 3)] * ranges, body)
    assert len(image) == group_bytes(len(body), ranges)
    decoded = decode_header(image)
    assert decoded is not None
    assert decoded.flags == SEAL
    assert list(facts_of(decoded, image)) == facts


@pytest.mark.parametrize("offset", range(99))
def test_any_changed_byte_is_noticed(offset):
    image = bytearray(IMAGE)
    image[offset] ^= 0x10
    group = decode_header(image)
    assert group is None or group.length != 99 or not intact(group, image[:99])


def test_a_header_that_contradicts_itself_is_none():
    assert decode_header(bytes(HEADER_BYTES)) is None
    too_long = encode(GROUP._replace(capacity=90), RANGES, b"")
    assert decode_header(too_long) is not None
    assert decode_header(encode(GROUP._replace(capacity=80), RANGES, b"")) is None
    assert decode_header(encode(GROUP._replace(watermark=2000), [], b"")) is None


@pytest.mark.parametrize(
    ("at", "field"),
    [(0, "magic"), (3, "magic"), (4, "version"), (16, "watermark")],
)
def test_a_header_is_none_if_a_single_field_of_it_is_not_ours(at, field):
    image = bytearray(IMAGE)
    assert decode_header(image) is not None
    image[at : at + 8] = b"\xff" * 8 if field == "watermark" else image[at : at + 8]
    image[at] ^= 0x80
    assert decode_header(image) is None, field


def test_a_header_may_say_that_its_watermark_is_its_own_beginning_and_no_more():
    for watermark, known in ((GROUP.lsn, True), (GROUP.lsn + 512, False)):
        image = encode(GROUP._replace(watermark=watermark), RANGES, framed(b"one"))
        assert (decode_header(image) is not None) is known


def test_a_length_from_its_ranges_up_to_the_whole_log_is_believed():
    least = HEADER_BYTES + 2 * 12
    for length, known in (
        (least - 1, False),
        (least, True),
        (GROUP.capacity, True),
        (GROUP.capacity + 1, False),
    ):
        image = bytearray(IMAGE)
        image[52:56] = length.to_bytes(4, "little")
        assert (decode_header(image) is not None) is known
