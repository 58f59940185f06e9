"""Promises about what one transaction sends to several queues, and about receiving it whole."""

from __future__ import annotations

import threading

import pytest

import dray


def send(manager, queue, *bodies):
    with manager.transaction() as transaction:
        for body in bodies:
            queue.send(body, transaction=transaction)
    return transaction.id


def test_one_transaction_reaches_all_its_queues_or_none(manager, make_queue):
    queues = [make_queue() for _ in range(3)] + [make_queue(quota=1000)]
    transaction = manager.transaction()
    for queue in queues:
        queue.send(bytes(2000), transaction=transaction)
    with pytest.raises(dray.QuotaExceeded):
        transaction.commit()
    assert [queue.info().message_count for queue in queues] == [0] * 4
    with manager.transaction() as transaction:
        for queue in queues[:3]:
            queue.send(b"same", transaction=transaction)
    found = [queue.receive(0) for queue in queues[:3]]
    assert {(message.body, message.transaction_id) for message in found} == {
        (b"same", transaction.id)
    }


def test_all_messages_of_a_transaction_are_received_at_once_and_complete(manager, queue):
    first = send(manager, queue, b"1", b"2", b"3")
    send(manager, queue, b"4")
    with manager.transaction() as transaction:
        received = queue.receive_transaction(0, transaction)
    assert [message.body for message in received.messages] == [b"1", b"2", b"3"]
    assert {message.transaction_id for message in received.messages} == {first}
    assert received.complete
    assert received.missing == []
    assert [message.body for message in queue.receive_transaction(0).messages] == [b"4"]


def test_what_is_missing_of_a_transaction_is_named(manager, queue):
    send(manager, queue, b"1", b"2", b"3", b"4")
    lookup_ids = [message.lookup_id for message in queue.messages()]
    for gone in (lookup_ids[0], lookup_ids[2]):
        queue.receive_by_lookup_id(gone)
    received = queue.receive_transaction(0)
    assert [message.body for message in received.messages] == [b"2", b"4"]
    assert (received.missing, received.complete) == ([1, 3], False)


def test_an_abort_gives_the_whole_transaction_back(manager, queue):
    send(manager, queue, b"1", b"2")
    transaction = manager.transaction()
    queue.receive_transaction(0, transaction)
    assert list(queue.messages()) == []
    transaction.abort()
    assert [message.body for message in queue.messages()] == [b"1", b"2"]


def test_a_transaction_longer_than_a_frame_is_received_whole(manager, queue):
    bodies = [bytes([number]) * (1 << 20) for number in range(6)]
    send(manager, queue, *bodies)
    assert [message.body for message in queue.receive_transaction(0).messages] == bodies
    assert queue.info().message_count == 0


def test_a_whole_transaction_is_waited_for(manager, queue):
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive_transaction(0.02)
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(queue.receive_transaction(30)))
    waiting.start()
    send(manager, queue, b"1", b"2")
    waiting.join(100)
    assert [message.body for message in taken[0].messages] == [b"1", b"2"]
