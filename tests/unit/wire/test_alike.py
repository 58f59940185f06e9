"""Records of a batch that are alike: written and read as each would be by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import MessageTooLarge, ProtocolError
from dray.model.classes import Acknowledge
from dray.model.limits import MESSAGE_BYTES_MAX
from dray.model.message import Message
from dray.wire.alike import encode_alike, headers_of, read_alike
from dray.wire.record import HEADER_BYTES, RECORD_HEADER, encode_record, read_header

SOURCE = bytes(range(16))
bodies = st.lists(st.binary(max_size=200), min_size=2, max_size=20)


def batch(*messages):
    records = [
        b"".join(encode_record(message, SOURCE, at)) for at, message in enumerate(messages, 7)
    ]
    return memoryview(b"".join(records)), [len(each) for each in records]


@given(bodies, st.sampled_from(["", "a label"]), st.integers(0, 7), st.booleans())
def test_alike_records_are_written_as_each_is_by_itself(bodies, label, priority, recoverable):
    like = Message(label=label, priority=priority, recoverable=recoverable)
    heads, sizes = encode_alike(like, bodies, SOURCE, 7)
    alone = [
        encode_record(
            Message(body=each, label=label, priority=priority, recoverable=recoverable), SOURCE, at
        )
        for at, each in enumerate(bodies, 7)
    ]
    assert list(zip(heads, bodies, strict=True)) == alone
    assert sizes == [len(head) + len(body) for head, body in alone]


@given(bodies, st.integers(0, 7), st.booleans(), st.sampled_from(["", "a label", "x" * 100]))
def test_alike_records_are_read_as_each_is_by_itself(bodies, priority, journal, label):
    like = {"priority": priority, "use_journal_queue": journal, "label": label}
    body, sizes = batch(
        *[Message(body=each, app_specific=-at, **like) for at, each in enumerate(bodies)]
    )
    alike = read_alike(body, sizes)
    assert alike is not None
    offsets = [sum(sizes[:at]) for at in range(len(sizes))]
    assert headers_of(alike, sizes) == [read_header(body, offset) for offset in offsets]


@pytest.mark.parametrize(
    "other",
    [
        Message(body=b"b", priority=5),
        Message(body=b"b", recoverable=False),
        Message(body=b"b", label="x"),
        Message(body=b"b", acknowledge=Acknowledge.FULL_RECEIVE),
    ],
)
def test_a_record_that_differs_in_more_is_not_alike(other):
    plain = Message(body=b"a")
    assert read_alike(*batch(plain, plain)) is not None
    assert read_alike(*batch(plain, other)) is None
    assert read_alike(*batch(other, plain)) is None


@pytest.mark.parametrize("field", range(len(RECORD_HEADER.unpack(bytes(HEADER_BYTES)))))
def test_no_field_of_a_header_goes_unread(field):
    """A second header with one other field is read one by one, but for number and app_specific."""
    body, sizes = batch(Message(body=b"a"), Message(body=b"b"))
    fields = list(RECORD_HEADER.unpack_from(body, sizes[0]))
    number, app_specific = 8, 9
    if isinstance(fields[field], bytes):
        fields[field] = bytes(len(fields[field]))
    else:
        fields[field] += 1
    wrong = bytearray(body)
    RECORD_HEADER.pack_into(wrong, sizes[0], *fields)
    alike = read_alike(memoryview(wrong), sizes)
    if field in (number, app_specific):
        assert alike == (read_header(body), (7, fields[number]), (0, fields[app_specific]))
    else:
        assert alike is None


def test_sizes_that_no_records_have_are_not_alike():
    body, sizes = batch(*[Message(body=b"abc")] * 3)
    for wrong in ([], sizes[:2], [sum(sizes)], [*sizes[:2], 0, sizes[2]], [HEADER_BYTES - 1] * 3,
                  [sizes[0] - 1, sizes[1] + 1, sizes[2]]):  # fmt: skip
        assert read_alike(body, wrong) is None
    long = memoryview(bytes(2 * MESSAGE_BYTES_MAX))
    assert read_alike(long, [HEADER_BYTES, len(long) - HEADER_BYTES]) is None


def test_the_longest_and_the_shortest_records_are_alike():
    body, sizes = batch(Message(body=bytes(MESSAGE_BYTES_MAX - HEADER_BYTES)), Message())
    assert sizes == [MESSAGE_BYTES_MAX, HEADER_BYTES]
    assert read_alike(body, sizes) == (read_header(body), (7, 8), (0, 0))


def test_records_whose_properties_are_of_other_lengths_or_words_are_not_alike():
    same = batch(*[Message(body=each, label="one") for each in (b"abc", b"", b"abcdef")])
    assert read_alike(*same) is not None
    for label in ("two", "", "longer"):
        other = Message(b"abc", label=label)
        assert read_alike(*batch(Message(b"abc", label="one"), other)) is None
    # The first says more properties than the second record has bytes.
    assert read_alike(*batch(Message(label="longer than the other record"), Message())) is None


def test_a_batch_that_begins_with_no_record_is_refused():
    with pytest.raises(ProtocolError):
        read_alike(memoryview(bytes(2 * HEADER_BYTES)), [HEADER_BYTES] * 2)


def test_a_body_that_is_too_long_is_refused_with_its_size():
    most = bytes(MESSAGE_BYTES_MAX - HEADER_BYTES)
    _, sizes = encode_alike(Message(), [b"", most], SOURCE, 1)
    assert sizes == [HEADER_BYTES, MESSAGE_BYTES_MAX]
    with pytest.raises(MessageTooLarge) as refused:
        encode_alike(Message(), [b"", most, most + b"x"], SOURCE, 1)
    assert refused.value.size == MESSAGE_BYTES_MAX + 1
