"""What is used of quotas, and how much room they leave."""

from __future__ import annotations

import pytest

from dray.errors import QuotaExceeded
from dray.manager.queue import FIRST_USER_QUEUE, Account, StoredQueue
from dray.manager.state.ledger import Ledger
from dray.model.classes import QueueKind
from dray.model.queue import QueueOptions

NUMBER = FIRST_USER_QUEUE


def test_of_a_manager_without_queues_nothing_is_used() -> None:
    ledger = Ledger()
    assert ledger.stored == ledger.staged == dict.fromkeys(Account, 0)


def test_a_sub_queue_has_the_room_that_its_parents_quota_leaves() -> None:
    ledger = Ledger()
    parent = StoredQueue(NUMBER, "orders", QueueKind.PRIVATE, QueueOptions(quota=1000))
    sub = StoredQueue(NUMBER + 1, "orders;aside", QueueKind.SUB, QueueOptions())
    sub.parent = parent
    parent.sub_queues.append(sub)
    ledger.stage(parent, 900)
    for queue in (parent, sub):
        assert ledger.room(queue, 5000) == 100
        assert ledger.room(queue, 50) == 50
        ledger.check(queue, 100)
        with pytest.raises(QuotaExceeded, match="queue 'orders' would be exceeded: 900 of 1000"):
            ledger.check(queue, 101)
        with pytest.raises(QuotaExceeded, match="1000 more were asked for; receive messages or ra"):
            ledger.check(queue, 1000)
        with pytest.raises(QuotaExceeded, match="1001 more were asked for; raise the quota"):
            ledger.check(queue, 1001)
    ledger.give_back(NUMBER, parent, 900)
    ledger.check(sub, 1000)
