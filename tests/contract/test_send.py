"""Promises about sending plain messages."""

from __future__ import annotations

import pytest

import dray

EVERY_PROPERTY = {
    "label": "Größe",
    "correlation_id": "order-7",
    "app_specific": -(1 << 31),
    "extension": b"\x00more",
    "time_to_reach_queue": 60.0,
    "time_to_be_received": 3600.0,
    "administration_queue": "acks",
    "acknowledge": dray.Acknowledge.FULL_RECEIVE,
    "response_queue": "dray://there:1/answers",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "use_dead_letter_queue": True,
    "use_journal_queue": True,
}


def test_every_property_arrives_as_it_was_sent(manager, queue):
    identity = queue.send(b"body", **EVERY_PROPERTY)
    message = queue.receive(0)
    assert {name: getattr(message, name) for name in EVERY_PROPERTY} == EVERY_PROPERTY
    assert (message.id, message.body, message.destination) == (identity, b"body", queue.name)
    assert message.source == manager.info().id
    assert message.sent_time <= message.arrived_time


def test_priorities_count_only_where_there_are_no_transactions(queue, make_queue):
    plain = make_queue(transactional=False)
    for each in (queue, plain):
        each.send(b"later", priority=1)
        each.send(b"first", priority=6)
    seen = [[(one.body, one.priority) for one in each.messages()] for each in (queue, plain)]
    assert seen[0] == [(b"later", 0), (b"first", 0)]
    assert seen[1] == [(b"first", 6), (b"later", 1)]
    assert (plain.receive(0).body, queue.receive(0).body) == (b"first", b"later")


@pytest.mark.parametrize("body", [b"", b"x", bytearray(b"array"), memoryview(b"a view")[2:]])
def test_any_bytes_like_body_arrives_as_bytes(queue, body):
    queue.send(body)
    assert queue.receive(0).body == bytes(body)


def test_a_message_is_sent_as_it_is_and_keywords_win(queue):
    queue.send(dray.Message(body=b"m", label="one", app_specific=4), label="two")
    message = queue.receive(0)
    assert (message.body, message.label, message.app_specific) == (b"m", "two", 4)


def test_a_message_with_a_mutable_body_is_sent_as_it_is_now(queue):
    queue.send(dray.Message(body=bytearray(b"now")))
    assert queue.receive(0).body == b"now"


def test_text_is_no_body(queue):
    with pytest.raises(TypeError, match="is bytes, not str: encode it first"):
        queue.send("text")


def test_ids_are_unique_and_grow(manager, queue):
    with manager.transaction() as transaction:
        ids = [queue.send(b"", transaction=transaction) for _ in range(50)]
    ids += queue.send_many([b"", b""])
    numbers = [int(identity.partition("\\")[2]) for identity in ids]
    assert numbers == sorted(set(numbers))
    assert [message.id for message in queue.messages()] == ids


def test_the_largest_plain_message_fits_and_one_byte_more_is_refused(queue):
    limit = (4 << 20) - 64
    queue.send(bytes(limit))
    assert len(queue.receive(0).body) == limit
    with pytest.raises(dray.MessageTooLarge, match="LargeMessageQueue") as caught:
        queue.send(bytes(limit + 1))
    assert (caught.value.size, caught.value.limit) == (limit + 65, 4 << 20)


def test_a_batch_keeps_its_order_and_is_one_transaction(queue):
    ids = queue.send_many([b"1", dray.Message(body=b"2", label="two"), bytearray(b"3")])
    messages = queue.receive_many(10, timeout=0)
    assert [message.body for message in messages] == [b"1", b"2", b"3"]
    assert [message.id for message in messages] == ids
    assert len({message.transaction_id for message in messages}) == 1


def test_a_batch_longer_than_a_frame_is_still_one_transaction(queue):
    queue.send_many([bytes(1 << 20)] * 6)
    assert len({message.transaction_id for message in queue.messages()}) == 1


def test_a_batch_longer_than_a_frame_reaches_a_queue_without_transactions(make_queue):
    plain = make_queue(transactional=False)
    assert len(plain.send_many([bytes(1 << 20)] * 6)) == 6
    assert plain.info().message_count == 6


def test_an_empty_batch_sends_nothing(queue):
    assert queue.send_many([]) == []
    assert queue.info().message_count == 0


def test_a_full_queue_refuses_and_says_whose_quota_it_is(make_queue):
    small = make_queue(quota=5000)
    small.send(bytes(4000))
    with pytest.raises(dray.QuotaExceeded) as caught:
        small.send(bytes(4000))
    assert (caught.value.quota, caught.value.limit) == ("queue", 5000)
    assert small.receive(0).body == bytes(4000)
    small.send(bytes(4000))


NOT_TO_BE_SENT = [
    {"label": b"bytes"},
    {"label": "\ud800"},
    {"correlation_id": b"bytes"},
    {"correlation_id": "\ud800"},
    {"extension": "text"},
    {"time_to_reach_queue": -1},
    {"time_to_reach_queue": float("nan")},
    {"time_to_reach_queue": "soon"},
    {"time_to_be_received": -0.5},
    {"time_to_be_received": float("inf")},
    {"time_to_be_received": float("nan")},
    {"time_to_be_received": 1e300},
    {"administration_queue": 5},
    {"response_queue": 5},
    {"traceparent": "0" * 256},
]


@pytest.mark.parametrize("properties", NOT_TO_BE_SENT, ids=str)
def test_a_property_nobody_could_read_is_refused_before_it_is_sent(manager, queue, properties):
    with pytest.raises(dray.Misuse):
        queue.send(b"", **properties)
    with pytest.raises(dray.Misuse), manager.transaction() as transaction:
        queue.send(b"", transaction=transaction, **properties)
    queue.send(b"the connection is as good as before", time_to_be_received=60)
    assert queue.info().message_count == 1


def test_a_transactional_message_is_recoverable_whatever_was_asked_for(queue, make_queue):
    plain = make_queue(transactional=False)
    for each in (queue, plain):
        each.send(b"", recoverable=False)
    assert (queue.receive(0).recoverable, plain.receive(0).recoverable) == (True, False)
