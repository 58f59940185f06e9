"""What the facts about a message cost, so that no fact outgrows the log."""

from __future__ import annotations

from dray.manager.entries import TAIL_BYTES
from dray.manager.queue import cost_of_sending
from dray.model.classes import Acknowledge
from dray.wire.record import RecordHeader


def header(acknowledge: Acknowledge) -> RecordHeader:
    return RecordHeader(0, 3, 0, 0, 0, b"", 0, 0, acknowledge, 0, 0)


def test_word_of_its_arrival_costs_a_message_that_asks_for_it_in_its_queue_and_not_on_its_way():
    silent, asking = header(Acknowledge.NONE), header(Acknowledge.FULL_REACH_QUEUE)
    assert cost_of_sending([silent, asking], outgoing=True) == 2 * TAIL_BYTES
    assert cost_of_sending([silent, silent], outgoing=False) == 2 * TAIL_BYTES
    assert cost_of_sending([silent, asking], outgoing=False) > 3 * TAIL_BYTES
