"""The message record: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import struct
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import MessageTooLarge, Misuse, ProtocolError
from dray.model.classes import Acknowledge, Part
from dray.model.limits import (
    ACKNOWLEDGE_MAX,
    APP_SPECIFIC_MAX,
    APP_SPECIFIC_MIN,
    CORRELATION_ID_CHARACTERS_MAX,
    LABEL_CHARACTERS_MAX,
    MESSAGE_BYTES_MAX,
    PRIORITY_MAX,
    PROPERTIES_BYTES_MAX,
)
from dray.model.message import Message
from dray.wire.record import (
    COPY_DEAD_LETTER,
    COPY_JOURNAL,
    HEADER_BYTES,
    PLAIN,
    WANTS_ACKNOWLEDGMENTS,
    PartMark,
    acknowledge_of,
    encode_record,
    read_header,
    read_properties,
)

SOURCE = bytes(range(16))

messages = st.builds(
    Message,
    body=st.binary(max_size=300),
    label=st.text(max_size=LABEL_CHARACTERS_MAX),
    correlation_id=st.none() | st.text(max_size=CORRELATION_ID_CHARACTERS_MAX),
    app_specific=st.integers(-(1 << 31), (1 << 31) - 1),
    extension=st.binary(max_size=50),
    priority=st.integers(0, PRIORITY_MAX),
    recoverable=st.sampled_from([None, True, False]),
    time_to_reach_queue=st.none() | st.floats(0, 1e9),
    time_to_be_received=st.none() | st.floats(0, 1e9),
    administration_queue=st.none() | st.text(max_size=50),
    acknowledge=st.sampled_from([Acknowledge.NONE, Acknowledge.FULL_RECEIVE]),
    response_queue=st.none() | st.text(max_size=50),
    traceparent=st.none() | st.text(max_size=50),
    use_dead_letter_queue=st.none() | st.booleans(),
    use_journal_queue=st.booleans(),
    destination=st.none() | st.text(min_size=1, max_size=50),
)
marks = st.builds(
    PartMark,
    st.sampled_from(Part),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 32) - 1),
)


def record(message, number=1, mark=PLAIN):
    head, body = encode_record(message, SOURCE, number, mark)
    return head + bytes(body)


@given(messages, st.integers(0, (1 << 64) - 1), marks, st.integers(0, 40))
def test_what_goes_in_comes_out_at_any_offset(message, number, mark, offset):
    data = bytes(offset) + record(message, number, mark)
    header = read_header(data, offset)
    assert header.record_bytes == len(data) - offset
    assert data[len(data) - header.body_bytes :] == message.body
    assert (header.source, header.number) == (SOURCE, number)
    assert (header.part, header.sequence, header.fragment_count) == mark
    assert header.app_specific == message.app_specific
    assert header.priority == message.priority
    assert acknowledge_of(header) == message.acknowledge
    properties = read_properties(data, header, offset)
    for name in properties.__struct_fields__:
        if name != "destination":
            assert getattr(properties, name) == getattr(message, name)
    # Only a copy in another queue needs to say where its message was sent.
    has_copy = message.use_dead_letter_queue is not False or message.use_journal_queue
    assert properties.destination == (message.destination if has_copy else None)


EXTREMES = [
    {"priority": 0, "app_specific": APP_SPECIFIC_MIN, "acknowledge": Acknowledge.NONE},
    {
        "priority": PRIORITY_MAX,
        "app_specific": APP_SPECIFIC_MAX,
        "acknowledge": Acknowledge(ACKNOWLEDGE_MAX),
    },
]


@pytest.mark.parametrize("numbers", EXTREMES)
def test_the_least_and_the_greatest_number_of_a_message_travel(numbers):
    header = read_header(record(Message(**numbers)))
    assert {name: getattr(header, name) for name in numbers} == numbers
    for name in numbers:
        others = {each: value for each, value in numbers.items() if each != name}
        with pytest.raises(Misuse, match=f"{name} is a whole number"):
            encode_record(Message(**others, **{name: 1 << 40}), SOURCE, 1)


def as_long_as_properties_may_be(label="", beyond=0):
    """A message whose properties take so many bytes."""
    empty = len(record(Message(extension=bytes(1000)))) - HEADER_BYTES - 1000
    # A label of 32 to 255 characters has a byte more before it than one without any.
    others = empty + len(label) + bool(label)
    return Message(label=label, extension=bytes(PROPERTIES_BYTES_MAX - others + beyond))


def test_properties_that_are_exactly_as_long_as_they_may_be_travel_if_they_can_be_read():
    image = record(as_long_as_properties_may_be())
    header = read_header(image)
    assert header.properties_bytes == PROPERTIES_BYTES_MAX
    assert read_properties(image, header).label == ""
    with pytest.raises(MessageTooLarge):
        record(as_long_as_properties_may_be(beyond=1))
    with_label = as_long_as_properties_may_be("x" * LABEL_CHARACTERS_MAX)
    assert read_header(record(with_label)).properties_bytes == PROPERTIES_BYTES_MAX
    with pytest.raises(Misuse, match="label is Unicode text"):
        record(as_long_as_properties_may_be("x" * (LABEL_CHARACTERS_MAX + 1)))


@pytest.mark.parametrize(("size", "is_kept"), [(512, True), (513, False)])
def test_a_short_destination_that_many_messages_have_is_read_once(size, is_kept):
    message = Message(destination="x" * (size - 13), use_journal_queue=True)
    image = record(message)
    header = read_header(image)
    assert header.properties_bytes == size
    first, again = (read_properties(image, header) for _ in range(2))
    assert first == again
    assert (first is again) == is_kept


@pytest.mark.parametrize(("at", "value"), [(5, 4), (6, 8), (7, 18), (7, 32), (46, 1), (60, 1)])
def test_a_header_with_a_value_that_no_field_has_is_refused(at, value):
    image = bytearray(record(Message()))
    image[at] = value
    with pytest.raises(ProtocolError, match="field out of bounds"):
        read_header(image)


@pytest.mark.parametrize(("at", "value"), [(0, b"d"), (3, b"g"), (4, b"\0"), (4, b"\2")])
def test_a_record_of_another_magic_or_version_is_refused(at, value):
    image = record(Message())
    with pytest.raises(ProtocolError, match="no message record of version 1 begins here"):
        read_header(image[:at] + value + image[at + 1 :])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_protocol_error(data):
    with contextlib.suppress(ProtocolError):
        read_properties(data, read_header(data))


@given(messages, st.data())
def test_a_damaged_record_is_read_or_refused_and_nothing_else(message, data):
    image = bytearray(record(message))
    image[data.draw(st.integers(0, len(image) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        read_properties(image, read_header(image))


def test_the_header_is_64_bytes_and_a_message_of_defaults_has_no_properties():
    assert HEADER_BYTES == 64
    assert len(record(Message(body=b"abc"))) == 67


def test_the_largest_message_fits_and_one_byte_more_does_not():
    most = MESSAGE_BYTES_MAX - HEADER_BYTES
    head, body = encode_record(Message(body=bytes(most)), SOURCE, 1)
    assert len(head) + len(body) == MESSAGE_BYTES_MAX
    with pytest.raises(MessageTooLarge) as refused:
        encode_record(Message(body=bytes(most + 1)), SOURCE, 1)
    assert (refused.value.size, refused.value.limit) == (MESSAGE_BYTES_MAX + 1, MESSAGE_BYTES_MAX)


def test_the_properties_count_in_the_bytes_of_a_message():
    with_label = len(record(Message(label="a label")))
    longest = bytes(MESSAGE_BYTES_MAX - with_label)
    assert len(record(Message(label="a label", body=longest))) == MESSAGE_BYTES_MAX
    with pytest.raises(MessageTooLarge) as refused:
        record(Message(label="a label", body=longest + b"x"))
    assert refused.value.size == MESSAGE_BYTES_MAX + 1


def test_each_copy_and_notification_that_a_sender_asks_for_is_a_bit_of_its_own():
    wishes = {
        COPY_DEAD_LETTER: {"use_dead_letter_queue": True},
        COPY_JOURNAL: {"use_journal_queue": True},
        WANTS_ACKNOWLEDGMENTS: {"acknowledge": Acknowledge.FULL_RECEIVE},
    }
    found = set()
    for number in range(len(wishes) + 1):
        for chosen in combinations(wishes, number):
            asked = {name: value for each in chosen for name, value in wishes[each].items()}
            copies = read_header(record(Message(**asked))).copies
            assert {each for each in wishes if copies & each} == set(chosen)
            found.add(copies)
    assert len(found) == 8


def test_a_body_counts_in_bytes_whatever_its_items_are():
    wide = memoryview(bytes(32)).cast("Q")
    head, _ = encode_record(Message(body=wide), SOURCE, 1)
    assert read_header(head).body_bytes == 32


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message(label="x" * (LABEL_CHARACTERS_MAX + 1)), Misuse),
        (Message(correlation_id="x" * (CORRELATION_ID_CHARACTERS_MAX + 1)), Misuse),
        (Message(extension=bytes(PROPERTIES_BYTES_MAX + 1)), MessageTooLarge),
        (Message(priority=PRIORITY_MAX + 1), Misuse),
        (Message(priority=-1), Misuse),
        (Message(priority=256), Misuse),
        (Message(app_specific=1 << 31), Misuse),
    ],
    ids=["label", "correlation", "extension", "priority 8", "priority -1", "priority 256", "app"],
)
def test_what_is_out_of_bounds_is_refused_at_the_sender(message, error):
    with pytest.raises(error):
        encode_record(message, SOURCE, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acknowledge": 99}, "acknowledge is a whole number from 0 to 15, not 99"),
        ({"acknowledge": Acknowledge(16)}, "acknowledge is a whole number from 0 to 15, not <"),
        ({"acknowledge": "full"}, "acknowledge is a whole number from 0 to 15, not 'full'"),
        ({"priority": 8}, "priority is a whole number from 0 to 7, not 8"),
        ({"recoverable": "yes"}, "recoverable is True, False or None, not 'yes'"),
        ({"recoverable": 0}, "recoverable is True, False or None, not 0"),
        (
            {"use_dead_letter_queue": "yes"},
            "use_dead_letter_queue is True, False or None, not 'yes'",
        ),
        ({"use_dead_letter_queue": 0}, "use_dead_letter_queue is True, False or None, not 0"),
        ({"use_journal_queue": None}, "use_journal_queue is True or False, not None"),
        ({"label": 5}, "label is Unicode text of at most 249 characters, not 5"),
        ({"label": None}, "label is Unicode text of at most 249 characters, not None"),
        ({"label": "\ud800"}, "label is Unicode text of at most 249 characters, not '"),
        ({"correlation_id": b"id"}, "correlation_id is Unicode text of at most "),
        ({"extension": "text"}, "extension is bytes, not 'text'"),
        ({"extension": object()}, "extension is bytes, not <object"),
        ({"time_to_reach_queue": -1}, "time_to_reach_queue is a number of seconds from 0 to "),
        ({"time_to_be_received": "1 min"}, "time_to_be_received is a number of seconds from "),
        ({"administration_queue": 1}, "administration_queue is the name or address of a queue"),
        ({"response_queue": ["q"]}, "response_queue is the name or address of a queue"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, dict) else "",
)
def test_a_property_of_another_kind_is_refused_in_one_sentence_that_names_it(given, said):
    with pytest.raises(Misuse) as caught:
        encode_record(Message(**given), SOURCE, 1)
    assert str(caught.value).startswith(said)
    assert "$" not in str(caught.value)


@pytest.mark.parametrize(("at", "size"), [(8, PROPERTIES_BYTES_MAX + 1), (12, MESSAGE_BYTES_MAX)])
def test_a_record_that_says_it_is_longer_than_a_message_may_be_is_refused(at, size):
    image = bytearray(record(Message(body=b"abc")))
    image[at : at + 4] = size.to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="longer than the limit"):
        read_header(image)


@pytest.mark.parametrize("properties", [0, 10])
def test_a_record_that_says_it_is_as_long_as_a_message_may_be_is_read(properties):
    image = bytearray(record(Message()))
    longest = MESSAGE_BYTES_MAX - HEADER_BYTES - properties
    struct.pack_into("<II", image, 8, properties, longest)
    assert read_header(image).record_bytes == MESSAGE_BYTES_MAX
    struct.pack_into("<II", image, 8, properties, longest + 1)
    with pytest.raises(ProtocolError, match="longer than the limit"):
        read_header(image)
