"""Records that came, taken apart and never trusted."""

from __future__ import annotations

from itertools import accumulate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.checksum import crc32c
from dray.client.calls.messages import (
    SendBatch,
    addressed,
    are_alike,
    message_from,
    messages_in,
    record_of,
)
from dray.errors import DrayError, ProtocolError
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire.message_frames import Envelope
from dray.wire.record import HEADER_BYTES
from tests.cost import calls_of

SOURCE = b"\xab" * 16
SAID_BY_MANAGERS = {
    "id", "lookup_id", "message_class", "transaction_id", "first_in_transaction",
    "last_in_transaction", "sent_time", "arrived_time", "source", "abort_count", "move_count",
}  # fmt: skip
"""Properties that no record has."""


def came(*messages):
    records = [record_of(message, SOURCE, at) for at, message in enumerate(messages, 1)]
    envelopes = [Envelope(at, record.size, record.crc, 9, 1_500_000, 2_000_000, 3)
                 for at, record in enumerate(records, 5)]  # fmt: skip
    return envelopes, b"".join(record.head + bytes(record.body) for record in records)


def test_neighbours_are_cut_apart_with_what_managers_know_of_them():
    envelopes, body = came(Message(body=b"one", label="x"), Message(body=b"two"))
    first, second = messages_in(envelopes, memoryview(body), "orders")
    assert (first.body, first.label, second.body) == (b"one", "x", b"two")
    assert (first.id, first.lookup_id) == (f"{SOURCE.hex()}\\1", 5)
    assert first.transaction_id == f"{SOURCE.hex()}\\9"
    assert (first.sent_time, first.arrived_time) == (1.5, 2.0)
    assert (first.first_in_transaction, first.last_in_transaction) == (True, True)
    assert first.message_class is MessageClass.NORMAL


@pytest.mark.parametrize("at", [0, 5, 20, 40, 63, 66])
def test_a_record_with_one_damaged_byte_is_refused(at):
    envelopes, body = came(Message(body=b"body"))
    damaged = bytearray(body)
    damaged[at] ^= 0x10
    with pytest.raises(ProtocolError, match="CRC32C"):
        messages_in(envelopes, memoryview(damaged), "orders")


@pytest.mark.parametrize("at", [0, 40, 67, 68, 68 + 40, 68 + 66])
def test_a_batch_with_one_damaged_byte_is_refused(at):
    envelopes, body = came(Message(body=b"body"), Message(body=b"more"))
    damaged = bytearray(body)
    damaged[at] ^= 0x10
    with pytest.raises(ProtocolError, match="CRC32C"):
        messages_in(envelopes, memoryview(damaged), "orders")


def test_a_record_that_is_cut_short_or_followed_by_more_is_refused():
    envelopes, body = came(Message(body=b"body"))
    for wrong in (body[:-1], body + b"more"):
        with pytest.raises(ProtocolError):
            messages_in(envelopes, memoryview(wrong), "orders")


def test_a_class_that_is_none_is_refused():
    (envelope,), body = came(Message())
    values = [getattr(envelope, name) for name in Envelope.__struct_fields__]
    values[7] = 0x7777
    with pytest.raises(ProtocolError, match="0x7777"):
        messages_in([Envelope(*values)], memoryview(body), "orders")


def test_a_batch_is_read_in_few_calls_a_message():
    envelopes, body = came(*[Message(body=b"body")] * 100)
    calls = calls_of(lambda: messages_in(envelopes, memoryview(body), "orders"))
    assert calls <= len(envelopes), "9 calls for each when it was read by itself"
    envelopes, body = came(*[Message(body=b"body", label="one")] * 100)
    calls = calls_of(lambda: messages_in(envelopes, memoryview(body), "orders"))
    assert calls <= 10 * len(envelopes), "23 calls for each before its fields were in tables"


@given(
    st.lists(st.binary(max_size=50), min_size=2, max_size=9),
    st.builds(
        Message,
        priority=st.integers(0, 7),
        recoverable=st.sampled_from([None, True, False]),
        use_dead_letter_queue=st.sampled_from([None, True, False]),
        use_journal_queue=st.booleans(),
    ),
    st.sampled_from(["orders", "orders;journal", "system$;deadletter"]),
    st.data(),
)
def test_a_batch_of_alike_messages_is_read_as_each_by_itself(bodies, like, queue, data):
    _, whole = came(*[msgspec.structs.replace(like, body=each) for each in bodies])
    few = st.integers(0, 3)
    envelopes = [
        Envelope(
            at,
            HEADER_BYTES + len(body),
            crc32c(record),
            data.draw(few),
            *data.draw(st.tuples(few, few)),
            marks=data.draw(few),
            message_class=data.draw(st.sampled_from([0, 0, 0, MessageClass.NACK_PURGED])),
            abort_count=data.draw(few),
            move_count=data.draw(few),
        )
        for at, (body, record) in enumerate(zip(bodies, cut(whole, bodies), strict=True), 5)
    ]
    together = messages_in(envelopes, memoryview(whole), queue)
    alone = [
        messages_in([envelope], memoryview(record), queue)[0]
        for envelope, record in zip(envelopes, cut(whole, bodies), strict=True)
    ]
    assert together == alone


@given(
    st.lists(st.binary(max_size=50), max_size=9),
    st.sampled_from(["orders", "dray:host/orders"]),
    st.booleans(),
)
def test_a_batch_of_bytes_is_sent_as_each_by_itself(bodies, destination, mixed):
    given = [*map(bytearray, bodies[:1]), *bodies[1:]] if mixed else bodies
    batch = SendBatch(iter(given), destination)
    assert batch.count == len(bodies)
    assert batch.records(SOURCE, 3) == [
        record_of(addressed(Message(body=body), destination), SOURCE, at)
        for at, body in enumerate(bodies, 3)
    ]


KINDS = [
    {},
    {"label": "a label"},
    {"priority": 5, "recoverable": False},
    {"acknowledge": Acknowledge.FULL_RECEIVE, "administration_queue": "acks"},
    {"use_dead_letter_queue": True, "destination": "elsewhere"},
    {"use_journal_queue": True, "extension": b"x", "correlation_id": "c", "response_queue": "r"},
    {"time_to_reach_queue": 5.0, "time_to_be_received": 9, "traceparent": None},
]


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=50),
            st.integers(-(1 << 31), (1 << 31) - 1) | st.booleans(),
            st.sampled_from([0, 0, 0, 0, 1]),
        ),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.sampled_from(["orders", "dray:host/orders"]),
)
def test_a_batch_of_messages_is_sent_as_each_by_itself(given, most, other, destination):
    messages = [
        Message(body=body, app_specific=number, **(most, other)[which])
        for body, number, which in given
    ]
    alone = [
        record_of(addressed(message_from(each, {}), destination), SOURCE, at)
        for at, each in enumerate(messages, 3)
    ]
    assert SendBatch(messages, destination).records(SOURCE, 3) == alone


def test_messages_are_encoded_together_only_if_nothing_else_differs():
    first = Message(app_specific=1)
    assert are_alike([first, Message(body=b"b", app_specific=2)])
    for name in Message.__struct_fields__:
        odd = msgspec.structs.replace(first, **{name: object()})
        assert are_alike([first, odd]) == (name in SAID_BY_MANAGERS), name


@pytest.mark.parametrize(
    "wrong",
    [{"label": 5}, {"priority": 9}, {"app_specific": 1 << 31}, {"administration_queue": "a/b;c;d"}],
)
def test_a_property_that_all_messages_of_a_batch_have_wrong_is_refused(wrong):
    with pytest.raises(DrayError) as alone:
        record_of(message_from(Message(**wrong), {}), SOURCE, 1)
    with pytest.raises(type(alone.value)) as together:
        SendBatch([Message(**wrong), Message(b"b", **wrong)], "orders").records(SOURCE, 1)
    assert str(together.value) == str(alone.value)


def cut(whole, bodies):
    ends = list(accumulate(HEADER_BYTES + len(body) for body in bodies))
    return [whole[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def test_a_message_of_a_journal_was_sent_to_its_queue_and_a_dead_letter_where_its_sender_noted():
    envelopes, body = came(Message(), Message(destination="orders", use_journal_queue=True))
    noted = [
        each.destination for each in messages_in(envelopes, memoryview(body), "orders;journal")
    ]
    assert noted == ["orders", "orders"]
    dead = "system$;deadletter"
    noted = [each.destination for each in messages_in(envelopes, memoryview(body), dead)]
    assert noted == [dead, "orders"]
