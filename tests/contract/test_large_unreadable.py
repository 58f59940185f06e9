"""A large message that only a newer program can read stands in nobody's way and is not lost."""

from __future__ import annotations

import contextlib

import pytest

import dray
from dray.large import split

BODY = b"of the future" * 200


@contextlib.contextmanager
def newer():
    """Whoever sends and receives meanwhile knows control records of the next version, no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "CONTROL_VERSION", split.CONTROL_VERSION + 1)
        yield


@pytest.fixture
def sequence_id(large):
    with newer():
        return large.send(BODY, label="new")


@pytest.fixture
def aside(manager, queue):
    return manager.queue(f"{queue.name};unreadable")


@pytest.fixture
def large_aside(face, aside):
    return face.LargeMessageQueue(aside)


def received(large):
    with large.receive(timeout=10) as message:
        return message.sequence_id, message.body()


def test_it_is_moved_aside_by_name_and_the_next_one_is_received(large, queue, aside, sequence_id):
    behind = large.send(b"of today")
    with pytest.raises(dray.LargeMessageCorrupt, match="version 2") as caught:
        large.receive(timeout=10)
    assert caught.value.sequence_id == sequence_id
    assert repr(aside.name) in str(caught.value)
    assert received(large) == (behind, b"of today")
    assert queue.info().message_count == 0


def test_nothing_of_it_is_lost_to_who_can_read_it(large, aside, large_aside, sequence_id):
    with pytest.raises(dray.LargeMessageCorrupt):
        large.receive(timeout=10)
    assert aside.info().message_count == 5
    with newer():
        assert received(large_aside) == (sequence_id, BODY)
    assert aside.info().message_count == 0


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.usefixtures("sequence_id")
def test_it_is_aside_however_the_callers_transaction_ends(manager, large, aside, end):
    first = large.send(b"first")
    transaction = manager.transaction()
    with pytest.raises(dray.LargeMessageCorrupt):
        large.receive(10, transaction)
    assert large.receive(10, transaction).sequence_id == first
    getattr(transaction, end)()
    assert aside.info().message_count == 5
    if end == "abort":
        assert received(large) == (first, b"first")
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(timeout=0)


def test_a_peek_at_it_moves_nothing(large, queue, sequence_id):
    for _ in range(2):
        with pytest.raises(dray.LargeMessageCorrupt, match="it stays in the queue") as caught:
            large.peek(timeout=10)
        assert caught.value.sequence_id == sequence_id
    assert queue.info().message_count == 5


def test_where_it_was_moved_to_it_stays(large, aside, large_aside, sequence_id):
    with pytest.raises(dray.LargeMessageCorrupt):
        large.receive(timeout=10)
    for _ in range(2):
        with pytest.raises(dray.LargeMessageCorrupt, match="it stays first") as caught:
            large_aside.receive(timeout=10)
        assert caught.value.sequence_id == sequence_id
    assert aside.info().message_count == 5


def test_what_was_said_of_it_in_the_status_queue_is_taken_back(face, manager, queue):
    statuses = manager.create_queue(f"status-{queue.name}")
    large = face.LargeMessageQueue(queue, status_queue=statuses.name)
    with newer():
        large.send(BODY)
    with pytest.raises(dray.LargeMessageCorrupt):
        large.receive(timeout=10)
    assert statuses.info().message_count == 0
