"""Records that came, taken apart and never trusted."""

from __future__ import annotations

from itertools import accumulate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.checksum import crc32c
from dray.client.calls.messages import SendBatch, addressed, messages_in, record_of
from dray.errors import ProtocolError
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.wire.frames import Envelope
from dray.wire.record import HEADER_BYTES
from tests.cost import calls_of

SOURCE = b"\xab" * 16


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
