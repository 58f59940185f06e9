"""What the facts about a message cost, so that no fact outgrows the log."""

from __future__ import annotations

import pytest

from dray.manager.entries import TAIL_BYTES, Staged, pack_tail, with_key
from dray.manager.queue import (
    FIRST_USER_QUEUE,
    StoredQueue,
    cost_of_accepting,
    cost_of_leaving,
    cost_of_receiving,
    cost_of_sending,
)
from dray.manager.queue.costs import KEPT_BYTES, POSITION_BYTES, TOLD_BYTES
from dray.model.classes import Acknowledge, QueueKind
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.store.heap.heap import Extent
from dray.wire.record import (
    COPY_DEAD_LETTER,
    COPY_JOURNAL,
    WANTS_ACKNOWLEDGMENTS,
    RecordHeader,
    encode_record,
)


def header(acknowledge: Acknowledge, properties_bytes: int = 0) -> RecordHeader:
    return RecordHeader(0, 3, 0, properties_bytes, 0, b"", 0, 0, acknowledge, 0, 0)


def entry(copies: int = 0, *, route: int = 0) -> bytes:
    """A message whose sender has asked for copies, and that came by a route."""
    staged = Staged(Extent(1, 0, 64), 0, 5, 0, 3, 0, copies=copies)
    return with_key(pack_tail(staged, 0, 1, route=route), 1)


class OneRecord:
    """A store in which every place has one record."""

    def __init__(self, record: bytes) -> None:
        self.record = record

    def read(self, _extent: Extent, *, offset: int = 0, length: int | None = None) -> bytes:
        return self.record[offset:][:length]


def test_word_of_its_arrival_costs_a_message_that_asks_for_it_in_its_queue_and_not_on_its_way():
    silent, asking = header(Acknowledge.NONE), header(Acknowledge.FULL_REACH_QUEUE)
    assert cost_of_sending([silent, asking], outgoing=True) == 2 * TAIL_BYTES
    assert cost_of_sending([silent, silent], outgoing=False) == 2 * TAIL_BYTES
    assert cost_of_sending([silent, asking], outgoing=False) > 3 * TAIL_BYTES


@pytest.mark.parametrize(
    ("copies", "route", "always_told", "cost"),
    [
        (0, 0, False, POSITION_BYTES),
        (0, 9, False, POSITION_BYTES),
        (COPY_DEAD_LETTER, 9, False, POSITION_BYTES + KEPT_BYTES),
        (0, 0, True, POSITION_BYTES + KEPT_BYTES),
        (0, 9, True, TOLD_BYTES),
        (WANTS_ACKNOWLEDGMENTS, 0, False, TOLD_BYTES),
    ],
)
def test_a_message_that_leaves_costs_more_if_it_is_kept_and_most_if_its_source_is_told(
    copies: int, route: int, *, always_told: bool, cost: int
) -> None:
    assert cost_of_leaving(entry(copies, route=route), always_told=always_told) == cost


def test_a_message_from_another_manager_costs_the_word_of_it_with_its_properties() -> None:
    silent, asking = (
        header(each, 100) for each in (Acknowledge.NONE, Acknowledge.FULL_REACH_QUEUE)
    )
    assert cost_of_accepting(silent, refused=False) == TAIL_BYTES
    told = cost_of_accepting(asking, refused=False)
    assert told > TAIL_BYTES + 100
    assert cost_of_accepting(silent, refused=True) == told


def test_a_receive_costs_a_position_a_copy_in_the_journal_and_what_the_sender_asked_for() -> None:
    record = b"".join(encode_record(Message(label="x" * 200), bytes(16), 5))
    queues = [
        StoredQueue(FIRST_USER_QUEUE, "orders", QueueKind.PRIVATE, QueueOptions(journal=journal))
        for journal in (False, True)
    ]
    journal = StoredQueue(FIRST_USER_QUEUE + 1, "journal", QueueKind.JOURNAL, QueueOptions())
    queues[1].journal = journal
    for queue, each in zip(queues, (POSITION_BYTES, POSITION_BYTES + TAIL_BYTES), strict=True):

        def beside(*found: bytes, queue: StoredQueue = queue, each: int = each) -> int:
            return cost_of_receiving(OneRecord(record), queue, found) - len(found) * each

        assert beside(entry(), entry()) == 0
        assert beside(entry(), entry(COPY_JOURNAL)) == KEPT_BYTES
        assert beside(entry(WANTS_ACKNOWLEDGMENTS)) > KEPT_BYTES + TAIL_BYTES
        assert beside(entry(WANTS_ACKNOWLEDGMENTS, route=9)) > KEPT_BYTES + 200
