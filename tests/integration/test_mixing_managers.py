"""Plain and large messages for one queue, from two queue managers."""

from __future__ import annotations

import pytest

import dray
from tests.integration.commands import until

SECONDS = 60
BODY = b"x" * 2500


@pytest.fixture
def destination(tmp_path, address):
    with dray.open(tmp_path / "destination", listen=address, open=True) as manager:
        manager.create_queue("statusq")
        manager.create_queue("shared")
        yield manager


@pytest.fixture
def source(tmp_path):
    with dray.open(tmp_path / "source") as manager:
        yield manager


@pytest.fixture
def there(source, destination, address):
    """The destination's queue as the source knows it."""
    return source.queue(f"dray://{address}/shared")


def take(manager):
    with dray.LargeMessageQueue(manager.queue("shared")).receive(SECONDS) as message:
        return message.body()


def test_a_queue_of_another_manager_changes_its_use_once_it_is_empty(there, destination):
    for _ in range(2):
        dray.LargeMessageQueue(there, fragment_size=1000).send(BODY)
        assert take(destination) == BODY
        # The destination's order ack empties the outgoing queue; until then it is in large use.
        until(lambda: not there.info().message_count)
        there.send(b"plain")
        assert destination.queue("shared").receive(SECONDS).body == b"plain"


def test_a_plain_message_is_refused_where_parts_came_from_another_manager(there, destination):
    shared = destination.queue("shared")
    parts = destination.queue("shared", raw=True)
    transaction = destination.transaction()
    shared.send(b"plain", transaction=transaction)
    dray.LargeMessageQueue(there, fragment_size=1000).send(BODY)
    parts.peek(SECONDS)
    with pytest.raises(dray.LargeMessageMixing):
        transaction.commit()
    with pytest.raises(dray.LargeMessageMixing):
        shared.send(b"plain")
    assert take(destination) == BODY
    shared.send(b"plain")
    assert shared.receive(0).body == b"plain"


def test_a_plain_message_of_another_manager_waits_for_the_large_ones(there, destination):
    shared = destination.queue("shared")
    dray.LargeMessageQueue(shared).send(BODY)
    there.send(b"plain")
    cursor = destination.queue("shared", raw=True).cursor()
    for _ in range(3):
        cursor.next(SECONDS)
    assert cursor.next(SECONDS).body == b"plain"
    with pytest.raises(dray.LargeMessageMixing):
        shared.receive(0)
    assert take(destination) == BODY
    assert shared.receive(0).body == b"plain"
