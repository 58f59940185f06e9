"""A large message as parts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import Misuse, ProtocolError
from dray.large.split import (
    Control,
    LargeMessageParameters,
    PartMessage,
    Split,
    check_fragment_size,
    label_of_whole,
    read_control,
)
from dray.model.classes import Acknowledge, Part
from dray.model.ids import ManagerId
from dray.model.message import Message
from dray.wire.record import PartMark, encode_record, read_header

MANAGER = ManagerId("0a" * 16)


def split_of(message, **options):
    parameters = options.get("parameters", LargeMessageParameters())
    return Split(message, MANAGER, 70, parameters=parameters, fragment_size=1000)


def test_header_fragments_and_trailer_are_chained_by_the_headers_number():
    split = split_of(Message(label="blob", correlation_id="mine", app_specific=5))
    parts = [split.header(), split.fragment(b"a"), split.fragment(b"b"), split.trailer(b"d" * 32)]
    chain = f"{MANAGER}\\70"
    assert split.sequence_id == chain
    assert [part.mark for part in parts] == [
        PartMark(Part.HEADER, 70, 0),
        PartMark(Part.FRAGMENT, 70, 0),
        PartMark(Part.FRAGMENT, 70, 0),
        PartMark(Part.TRAILER, 70, 2),
    ]
    assert [part.message.app_specific for part in parts] == [-9998, 1, 2, -9999]
    assert [part.message.correlation_id for part in parts] == ["mine", chain, chain, chain]
    assert [part.message.label for part in parts] == [
        "blob", "blob.part.1", "blob.part.2", "blob.part.-9999",
    ]  # fmt: skip


def test_the_trailer_counts_and_measures_what_the_header_could_not_know():
    split = split_of(Message(label="blob", app_specific=-7, extension=b"x"))
    header = split.header()
    split.fragment(b"a" * 10)
    split.fragment(b"b" * 5)
    trailer = split.trailer(b"d" * 32)
    assert read_control(header.message.body) == Control(
        1, 0, -7, None, "blob", -1, 1000, "blake3", b"", b"x"
    )
    assert read_control(trailer.message.body) == Control(
        1, 2, -7, None, "blob", 15, 1000, "blake3", b"d" * 32, b"x"
    )
    assert split.size == 15


def test_the_control_record_is_the_one_in_the_documentation():
    split = split_of(Message(label="blob", correlation_id="mine", app_specific=5))
    assert split.header().message.body == bytes.fromhex(
        "9f 01 00 05 a4 6d696e65 a4 626c6f62 ff cd03e8 a6 626c616b6533 c400 c400 c0 c0 00 c0 c0"
    )


def test_every_part_is_kept_as_the_application_asked_and_only_the_trailer_is_acknowledged():
    message = Message(
        acknowledge=Acknowledge.FULL_RECEIVE,
        administration_queue="acks",
        use_dead_letter_queue=True,
        use_journal_queue=True,
        time_to_reach_queue=5.0,
        time_to_be_received=6.0,
        recoverable=False,
        priority=6,
    )
    split = split_of(message)
    parts = [split.header(), split.fragment(b""), split.trailer(b"")]
    for name in (
        "use_dead_letter_queue", "use_journal_queue", "time_to_reach_queue",
        "time_to_be_received", "recoverable", "priority",
    ):  # fmt: skip
        assert {getattr(part.message, name) for part in parts} == {getattr(message, name)}
    assert [part.message.acknowledge for part in parts] == [
        Acknowledge.NONE, Acknowledge.NONE, Acknowledge.FULL_RECEIVE,
    ]  # fmt: skip
    assert parts[2].message.administration_queue == "acks"


def test_a_fragment_is_not_copied():
    body = memoryview(bytearray(100))
    part = split_of(Message()).fragment(body)
    assert isinstance(part, PartMessage)
    assert part.message.body is body


def test_a_long_label_makes_room_for_the_number_of_the_part():
    split = split_of(Message(label="x" * 249))
    labels = [split.fragment(b"").message.label, split.trailer(b"").message.label]
    assert [len(label) for label in labels] == [249, 249]
    assert labels[0].endswith("x.part.1")
    assert read_control(split.header().message.body).label == "x" * 249


def test_what_a_record_takes_for_a_number_can_be_read_from_the_control_record():
    message = Message(app_specific=True, acknowledge=Acknowledge.POSITIVE_ARRIVAL)
    control = read_control(split_of(message).header().message.body)
    assert (control.app_specific, control.acknowledge) == (1, Acknowledge.POSITIVE_ARRIVAL)


@pytest.mark.parametrize(("given_size", "used"), [(0, 4_000_000), (1, 1), (4_000_000, 4_000_000)])
def test_a_fragment_size_of_zero_means_the_largest(given_size, used):
    assert check_fragment_size(given_size) == used


@pytest.mark.parametrize("size", [-1, 4_000_001, "1000", 1.5, None, True])
def test_a_fragment_size_out_of_bounds_is_refused(size):
    with pytest.raises(ValueError, match="fragment_size"):
        check_fragment_size(size)


@pytest.mark.parametrize(
    "marks",
    [{"header": 0}, {"trailer": 1}, {"header": -(1 << 31) - 1}, {"header": -5, "trailer": -5}],
)
def test_marks_that_could_be_fragment_numbers_or_each_other_are_refused(marks):
    with pytest.raises(ValueError, match="mark"):
        LargeMessageParameters(**marks)


@pytest.mark.parametrize("change", [{"version": 2}, {"digest_kind": "md5"}])
def test_a_control_record_from_the_future_is_refused(change):
    control = Control(1, 0, 0, None, "", 0, 1, "sha256", b"")
    encoded = msgspec.msgpack.encode(msgspec.structs.replace(control, **change))
    with pytest.raises(ProtocolError, match="version 1"):
        read_control(encoded)


def test_a_control_record_may_grow_at_its_end():
    values = [1, 0, 0, None, "", 0, 1, "sha256", b"", b"", None, None, 0, None, "later"]
    assert read_control(msgspec.msgpack.encode(values)).label == ""


@given(st.binary(max_size=200))
def test_any_bytes_give_a_control_record_or_a_protocol_error(data):
    try:
        control = read_control(data)
    except ProtocolError:
        return
    assert control.version == 1


@given(st.integers(0, 12_000), st.text(max_size=249), st.none() | st.text(max_size=100))
def test_the_room_to_reserve_is_never_too_small_and_hardly_too_large(size, label, correlation_id):
    message = Message(label=label, correlation_id=correlation_id)
    split = split_of(message)
    bound, longest = split.room_for(size)
    pieces = [bytes(min(1000, size - at)) for at in range(0, max(1, size), 1000)]
    assert len(pieces) == split.fragments_of(size)
    parts = [split.header(size), *map(split.fragment, pieces), split.trailer(bytes(32))]
    records = [encode_record(part.message, bytes(16), 0, part.mark) for part in parts]
    sizes = [len(head) + len(body) for head, body in records]
    assert sum(sizes) <= bound <= sum(sizes) + 16 * len(parts)
    assert max(sizes) <= longest <= max(sizes) + 16


@pytest.mark.parametrize("label", ["", "blob", "disk.part.2"])
def test_the_label_of_the_whole_is_in_those_of_fragment_and_trailer(label):
    split = split_of(Message(label=label))
    parts = [split.fragment(b"x"), split.trailer(bytes(32))]
    assert [label_of_whole(part.message.label) for part in parts] == [label, label]


def test_a_label_without_the_number_of_a_part_is_taken_as_it_is():
    assert label_of_whole("by another program") == "by another program"


def test_a_fragment_that_was_packed_says_how_long_it_is_unpacked():
    split = split_of(Message(label="blob"))
    parts = [split.fragment(b"a" * 10, packed=b"pk"), split.fragment(b"b" * 5)]
    assert [each.mark for each in parts] == [
        PartMark(Part.FRAGMENT, 70, 10),
        PartMark(Part.FRAGMENT, 70, 0),
    ]
    assert [bytes(each.message.body) for each in parts] == [b"pk", b"bbbbb"]
    assert [each.message.app_specific for each in parts] == [1, 2]
    control = read_control(split.trailer(b"d" * 32).message.body)
    assert (control.fragment_count, control.size) == (2, 15), "the size is that of the body"


def test_a_fragment_that_is_there_already_is_counted_as_if_it_had_been_made():
    split, whole = split_of(Message(label="blob")), split_of(Message(label="blob"))
    split.skip(10)
    whole.fragment(b"a" * 10)
    assert split.count == whole.count == 1
    assert split.fragment(b"b") == whole.fragment(b"b")
    assert split.trailer(b"d" * 32) == whole.trailer(b"d" * 32)


@pytest.mark.parametrize("mark", [-1, -(1 << 31)])
def test_a_mark_below_0_that_fits_32_bits_travels_as_a_number_of_the_message(mark):
    parameters = LargeMessageParameters(header=mark)
    head, _ = encode_record(
        split_of(Message(), parameters=parameters).header().message, bytes(16), 1
    )
    assert read_header(head).app_specific == mark


@pytest.mark.parametrize("mark", [0, -(1 << 31) - 1, -1.0])
def test_any_other_mark_is_refused(mark):
    for name in ("header", "trailer"):
        with pytest.raises(Misuse, match=f"{name} is a mark below 0 that fits 32 bits"):
            LargeMessageParameters(**{name: mark})
