"""Large messages for another queue manager, between two real ones on loopback."""

from __future__ import annotations

import os

import pytest

import dray
from tests.integration.commands import until

SECONDS = 60
BODY = os.urandom(9_000_000)


@pytest.fixture
def destination(tmp_path, address):
    with dray.open(tmp_path / "destination", listen=address, open=True) as manager:
        manager.create_queue("files")
        yield manager


@pytest.fixture
def source(tmp_path):
    with dray.open(tmp_path / "source") as manager:
        yield manager


@pytest.fixture
def there(source, destination, address):
    """The destination's queue as the source knows it; the stream to it is open."""
    queue = source.queue(f"dray://{address}/files")
    dray.LargeMessageQueue(queue).send(b"first")
    assert take(destination) == b"first"
    return queue


def take(manager):
    with dray.LargeMessageQueue(manager.queue("files")).receive(SECONDS) as message:
        return message.body()


def await_ahead(manager, wanted):
    until(lambda: wanted(manager.info().ahead_bytes))


def test_the_fragments_of_a_large_message_arrive_before_its_commit(source, there, destination):
    with source.transaction() as transaction:
        dray.LargeMessageQueue(there).send(BODY, transaction=transaction)
        await_ahead(destination, lambda size: size > len(BODY))
        assert destination.queue("files").info().message_count == 0
    assert take(destination) == BODY
    assert destination.info().ahead_bytes == 0


def test_an_aborted_large_message_leaves_nothing_at_its_destination(source, there, destination):
    transaction = source.transaction()
    dray.LargeMessageQueue(there).send(BODY, transaction=transaction)
    await_ahead(destination, lambda size: size > len(BODY))
    transaction.abort()
    await_ahead(destination, lambda size: size == 0)
    there.send(b"plain")
    assert destination.queue("files").receive(SECONDS).body == b"plain"
