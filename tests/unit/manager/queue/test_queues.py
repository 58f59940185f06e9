"""One queue, and the table of all: what they say of themselves, and what they count."""

from __future__ import annotations

from random import Random

import pytest

from dray.delivery.outgoing import OutgoingStream
from dray.manager.entries import SentAhead, Staged, pack_tail, with_keys
from dray.manager.events import Peer
from dray.manager.queue import FIRST_USER_QUEUE, IndexBacklog, QueueTable, Route, StoredQueue
from dray.model.classes import Part, QueueKind
from dray.model.limits import AHEAD_WEIGHT_BYTES
from dray.model.queue import QueueOptions
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, heap_file_number
from tests.drawn_entries import tail

NUMBER = FIRST_USER_QUEUE


def new(name: str = "orders", number: int = NUMBER, **options: object) -> StoredQueue:
    return StoredQueue(number, name, QueueKind.PRIVATE, QueueOptions(**options))


def leading(queue: StoredQueue) -> StoredQueue:
    """The queue as one that leads to another manager."""
    queue.route = Route(Peer("far", 7340), "orders")
    queue.stream = OutgoingStream(queue.number, "orders", IndexBacklog(queue))
    return queue


def message(kind: Kind = Kind.RECOVERABLE, part: Part = Part.PLAIN, ordinal: int = 1) -> bytes:
    staged = Staged(Extent(heap_file_number(kind, 1), 0, 300), 0, 5, part, 3, 0)
    return pack_tail(staged, 9, 1, ordinal=ordinal)


def test_a_new_queue_has_nothing_and_has_lost_nothing() -> None:
    info = new().info()
    assert (info.message_count, info.large_count, info.byte_count) == (0, 0, 0)
    assert (info.journal_count, info.journal_bytes) == (0, 0)
    assert (info.express_count, info.express_bytes) == (0, 0)
    assert (info.copies_skipped, info.staged_dropped) == (0, 0)
    assert info.unreadable_count == 0
    assert (info.born, info.last_position, info.state) == (0, 0, "active")


def test_a_queue_tells_what_is_in_its_journal_and_which_copies_both_have_lost() -> None:
    queue = new(journal=True)
    queue.journal = StoredQueue(NUMBER + 1, "journal", QueueKind.JOURNAL, QueueOptions())
    queue.journal.index.add_run(message() + message(), 1)
    queue.copies_skipped, queue.journal.copies_skipped = 3, 4
    info = queue.info()
    assert (info.journal_count, info.journal_bytes, info.copies_skipped) == (2, 600, 7)


def test_the_last_position_is_behind_all_that_are_reserved_and_not_taken() -> None:
    queue = new(transactional=False)
    queue.next_lookup_id, queue.express_positions = 11, range(8, 11)
    assert (queue.express_room, queue.info().last_position) == (3, 7)
    queue.next_lookup_id = 12
    assert (queue.express_room, queue.info().last_position) == (0, 11)


def test_a_message_may_be_express_where_no_queue_on_its_way_is_transactional() -> None:
    assert [new(transactional=each).takes_express for each in (True, False)] == [False, True]
    outgoing = leading(new(transactional=False))
    assert not outgoing.takes_express, "the kind of its destination is not known"
    outgoing.destination_transactional = False
    assert outgoing.takes_express


def test_an_outgoing_queue_has_carried_something_from_its_first_message_on() -> None:
    assert not new().carried
    queue = leading(new())
    assert not queue.carried
    assert queue.stream is not None
    queue.stream.admitted(1, 1, 1)
    assert queue.carried


def test_the_last_position_that_a_message_has_left_is_that_of_one_that_lasts() -> None:
    queue = new(transactional=False)
    queue.note_gone(with_keys(message(Kind.EXPRESS), 9))
    assert (queue.gone_upto, queue.gone_header_upto) == (0, 0)
    fragment, header = message(part=Part.FRAGMENT), message(part=Part.HEADER)
    for tails, first, gone in ((message() * 2, 4, (5, 0)), (fragment, 7, (7, 0))):
        queue.note_gone(with_keys(tails, first))
        assert (queue.gone_upto, queue.gone_header_upto) == gone
    queue.note_gone(with_keys(header + fragment, 2))
    assert (queue.gone_upto, queue.gone_header_upto) == (7, 2)


@pytest.mark.parametrize("seed", range(3))
def test_a_backlog_is_every_message_once_with_its_length(seed: int) -> None:
    rng, queue = Random(seed), new()
    queue.index.add_run(b"".join([tail(rng, priority=3) for _ in range(5)]), 1)
    assert list(IndexBacklog(queue).after(2)) == [(3, 100), (4, 100), (5, 100)]


def test_a_message_whose_record_was_sent_ahead_weighs_little_in_a_backlog() -> None:
    queue = new()
    queue.index.add_run(b"".join([message(ordinal=each) for each in (1, 2, 3)]), 1)
    queue.ahead[9] = SentAhead([])
    queue.ahead[9].there.add(2)
    assert list(IndexBacklog(queue).after(0)) == [(1, 300), (2, AHEAD_WEIGHT_BYTES), (3, 300)]


def test_a_table_counts_the_queues_that_it_ever_had() -> None:
    table = QueueTable()
    for made in range(3):
        assert table.made == made
        table.add(new(f"queue-{made}", NUMBER + made))
    table.discard(NUMBER)
    assert (table.made, len(table)) == (3, 2)
