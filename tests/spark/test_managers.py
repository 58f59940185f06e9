"""Settling takes only from the queue that was read, told by its birth number."""

from __future__ import annotations

import pytest

from dray.errors import QueueRecreated
from dray.spark.landing.settler import ManagerSettler
from dray.spark.landing.table import QueueReached
from dray.spark.positions import LandingProgress


@pytest.fixture
def settler():
    made = ManagerSettler()
    yield made
    made.close()


def test_nothing_is_settled_in_a_queue_that_was_made_again(daemon, manager, parcels, settler):
    earlier = manager.queue("parcels").info().born
    manager.delete_queue("parcels")
    manager.create_queue("parcels")
    holed = parcels.send(bytes(25_000))
    raw = manager.queue("parcels", raw=True)
    positions = [message.lookup_id for message in raw.messages()]
    raw.receive_by_lookup_id(positions[2])
    before = raw.info()
    key = (daemon.url, manager.info().id, "parcels")

    for reached in (
        QueueReached(LandingProgress(positions[-1]), born=earlier),
        QueueReached(holed=(holed,), born=earlier),
    ):
        with pytest.raises(QueueRecreated, match="'parcels'"):
            settler.settle(key, reached)
        assert raw.info() == before

    settled = settler.settle(key, QueueReached(holed=(holed,), born=before.born))
    assert settled == QueueReached(born=before.born)
    assert raw.info().message_count == 0
    parcels.send(b"read and landed")
    last = max(message.lookup_id for message in raw.messages())
    settler.settle(key, QueueReached(LandingProgress(last), born=before.born))
    assert raw.info().message_count == 0


def test_small_messages_leave_by_one_range_whatever_large_ones_lie_between(
    daemon, manager, parcels, settler
):
    raw = manager.queue("parcels", raw=True)
    for _ in range(3):
        raw.send(b"small")
        parcels.send(bytes(25_000))
    info = raw.info()
    landed = QueueReached(small=((1, info.last_position),), born=info.born)

    settled = settler.settle((daemon.url, manager.info().id, "parcels"), landed)

    assert settled == landed
    assert raw.info().large_count == 3
    assert not [message for message in raw.messages() if message.body == b"small"]
