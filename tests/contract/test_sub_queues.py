"""Promises about sub-queues, moves and rejection."""

from __future__ import annotations

import pytest

import dray


def bodies(queue):
    return [message.body for message in queue.messages()]


@pytest.fixture
def retry(manager, queue):
    return manager.queue(f"{queue.name};retry")


def test_a_message_moves_to_a_sub_queue_and_back(queue, retry):
    queue.send_many([b"1", b"2"])
    queue.move(queue.peek(0), retry.name)
    assert (bodies(queue), bodies(retry)) == ([b"2"], [b"1"])
    message = retry.peek(0)
    assert (message.move_count, message.abort_count) == (1, 0)
    retry.move(message.lookup_id, queue.name)
    assert (bodies(queue), bodies(retry)) == ([b"2", b"1"], [])


def test_a_move_in_a_transaction_happens_with_it_or_not_at_all(manager, queue, retry):
    queue.send(b"1")
    transaction = manager.transaction()
    queue.move(queue.peek(0), retry.name, transaction)
    assert bodies(queue) == bodies(retry) == []
    transaction.abort()
    assert (bodies(queue), bodies(retry)) == ([b"1"], [])
    with manager.transaction() as transaction:
        queue.move(queue.peek(0), retry.name, transaction)
    assert (bodies(queue), bodies(retry)) == ([], [b"1"])


def test_a_sub_queue_is_received_from_like_any_other(queue, retry):
    queue.send(b"1")
    queue.move(queue.peek(0), retry.name)
    assert retry.receive(0).body == b"1"
    assert retry.info().message_count == 0


def test_what_is_gone_or_was_never_there_cannot_be_moved(queue, retry):
    queue.send(b"1")
    message = queue.receive(0)
    for absent in (message, 77, dray.Message(body=b"x")):
        with pytest.raises(dray.MessageNotFound):
            queue.move(absent, retry.name)


def test_a_message_of_another_queue_is_neither_moved_nor_rejected_by_its_position(
    manager, queue, retry, make_queue
):
    other = make_queue()
    for each in (queue, other):
        each.send(each.name.encode())
    foreign = other.peek(0)
    assert foreign.lookup_id == queue.peek(0).lookup_id
    with pytest.raises(dray.MessageNotFound, match="use the queue from which the message was read"):
        queue.move(foreign, retry.name)
    with manager.transaction() as transaction:
        for each in (queue, other):
            each.receive(0, transaction=transaction)
        with pytest.raises(dray.MessageNotFound, match="use the queue from which"):
            queue.reject(foreign, transaction)
        other.reject(foreign, transaction)
        transaction.abort()
    assert bodies(queue) == [queue.name.encode()]
    other.move(other.peek(0), f"{other.name};retry")
    assert bodies(other) == []


def test_a_send_to_a_sub_queue_is_refused_with_the_way_to_get_a_message_there(retry):
    with pytest.raises(dray.AccessDenied, match="messages only move to a sub-queue"):
        retry.send(b"x")


def test_a_message_does_not_move_to_a_queue_of_another_family(queue, make_queue):
    queue.send(b"1")
    with pytest.raises(dray.Misuse):
        queue.move(queue.peek(0), make_queue().name)
    assert bodies(queue) == [b"1"]


def test_a_rejected_message_leaves_and_its_sender_is_told(manager, make_queue, queue):
    answers = make_queue()
    identity = queue.send(
        b"no", administration_queue=answers.name, acknowledge=dray.Acknowledge.NEGATIVE_RECEIVE
    )
    with manager.transaction() as transaction:
        queue.reject(queue.receive(0, transaction), transaction)
    told = answers.receive(10)
    assert told.message_class is dray.MessageClass.NACK_RECEIVE_REJECTED
    assert told.correlation_id == identity
    assert bodies(queue) == []


def test_an_aborted_rejection_never_was(manager, queue):
    queue.send(b"yes")
    transaction = manager.transaction()
    queue.reject(queue.receive(0, transaction), transaction)
    transaction.abort()
    assert bodies(queue) == [b"yes"]


def test_only_what_the_transaction_has_received_can_be_rejected(manager, queue):
    queue.send(b"yes")
    with manager.transaction() as transaction, pytest.raises(dray.MessageNotFound):
        queue.reject(queue.peek(0), transaction)
    assert bodies(queue) == [b"yes"]
