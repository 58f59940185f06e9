"""Records that came, taken apart and never trusted."""

from __future__ import annotations

import pytest

from dray.client.calls.messages import messages_in, record_of
from dray.errors import ProtocolError
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.wire.frames import Envelope
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
    assert calls <= 10 * len(envelopes), "23 calls for each before its fields were in tables"


def test_a_message_of_a_journal_was_sent_to_its_queue_and_a_dead_letter_where_its_sender_noted():
    envelopes, body = came(Message(), Message(destination="orders", use_journal_queue=True))
    noted = [
        each.destination for each in messages_in(envelopes, memoryview(body), "orders;journal")
    ]
    assert noted == ["orders", "orders"]
    dead = "system$;deadletter"
    noted = [each.destination for each in messages_in(envelopes, memoryview(body), dead)]
    assert noted == [dead, "orders"]
