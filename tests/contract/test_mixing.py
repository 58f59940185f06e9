"""Promises about one queue for plain and large messages, one kind after the other (S0-3, R96)."""

from __future__ import annotations

import threading

import pytest

import dray

SECONDS = 100
BODY = b"x" * 2500


@pytest.fixture
def plain_only(queue):
    """Sees plain sends to the queue refused."""

    def check(match="is used for large messages"):
        with pytest.raises(dray.LargeMessageMixing, match=match) as caught:
            queue.send(b"plain")
        assert caught.value.queue == queue.name

    return check


def take(large):
    with large.receive(SECONDS) as message:
        return message.body()


def test_an_empty_queue_changes_its_use_as_often_as_one_likes(large, queue):
    for _ in range(3):
        queue.send(b"plain")
        assert queue.receive(0).body == b"plain"
        large.send(BODY)
        assert take(large) == BODY


def test_a_purged_queue_changes_its_use(large, queue, plain_only):
    large.send(BODY)
    plain_only()
    queue.purge()
    queue.send(b"plain")
    assert queue.receive(0).body == b"plain"


def test_an_empty_queue_changes_its_use_after_a_restart(house, face):
    manager = house.start()
    manager.create_queue("statusq")
    for name in ("received", "purged", "full"):
        face.LargeMessageQueue(manager.create_queue(name)).send(BODY)
    assert take(face.LargeMessageQueue(manager.queue("received"))) == BODY
    manager.queue("purged").purge()
    manager = house.start()
    for name in ("received", "purged"):
        queue = manager.queue(name)
        queue.send(b"plain")
        assert queue.receive(0).body == b"plain"
    with pytest.raises(dray.LargeMessageMixing):
        manager.queue("full").send(b"plain")
    assert take(face.LargeMessageQueue(manager.queue("full"))) == BODY


def test_a_queue_keeps_its_use_until_its_last_large_message_is_received_for_good(
    large, queue, plain_only
):
    large.send(BODY)
    with large.receive(SECONDS) as message:
        plain_only()
        with pytest.raises(dray.LargeMessageMixing):
            queue.receive(0)
        assert message.body() == BODY
    queue.send(b"plain")


def test_a_queue_keeps_its_use_while_a_large_message_is_sent_to_it(
    manager, large, queue, plain_only
):
    transaction = manager.transaction()
    large.send(BODY, transaction=transaction)
    transaction.prepare()
    plain_only("is being sent")
    transaction.abort()
    queue.send(b"plain")


def test_a_plain_message_is_refused_at_its_commit_where_large_ones_came_meanwhile(
    manager, large, queue
):
    transaction = manager.transaction()
    queue.send(b"plain", transaction=transaction)
    large.send(BODY)
    with pytest.raises(dray.LargeMessageMixing):
        transaction.commit()
    assert transaction.status is dray.TransactionStatus.ABORTED
    assert take(large) == BODY
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive(0)


def test_a_plain_receive_that_waits_leaves_a_large_message_whole(manager, large, queue):
    found = []

    def wait():
        try:
            queue.receive(SECONDS)
        except dray.DrayError as error:
            found.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    # Whether the receive came first or not, it takes nothing of the large message.
    large.send(BODY)
    waiting.join(SECONDS)
    assert [type(error) for error in found] == [dray.LargeMessageMixing]
    assert take(large) == BODY
