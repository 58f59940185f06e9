"""The sentences of findings that do not need a queue manager."""

from __future__ import annotations

import pytest

from dray.client.awaited.doctor import _of_delivery
from dray.model.classes import QueueKind
from dray.model.queue import DeliveryInfo, QueueInfo, Refusal

ADDRESS = "dray://store:7340/orders"


@pytest.mark.parametrize(("count", "is_told"), [(0, False), (3, True)])
def test_dead_letters_are_spoken_of_where_messages_were_refused_for_good(count, is_told):
    """Where the whole queue waits, as beside another copy of the store, there are none."""
    refusal = Refusal("other-copy", "another copy runs: stop one of them", 1.0, count)
    delivery = DeliveryInfo(
        next_hop="store:7340", remote_queue="orders", link="welcomed", refusal=refusal
    )
    info = QueueInfo(
        name=ADDRESS,
        kind=QueueKind.OUTGOING,
        transactional=True,
        state="refused",
        message_count=5,
        delivery=delivery,
    )
    (found,) = _of_delivery(info, f"5 messages wait in {ADDRESS}")
    assert "another copy runs: stop one of them; mend that there" in found.sentence
    assert ("dray deadletter retry" in found.sentence) is is_told
