"""What a fact makes of the state where its queue is gone, or says what is known already."""

from __future__ import annotations

import pytest

from dray.delivery.events import DeliverySettings
from dray.delivery.incoming import StreamKey
from dray.errors import QueueExists, StoreCorrupt
from dray.manager.entries import Staged, lookup_id_of, pack_tail, tail_of
from dray.manager.events import Peer
from dray.manager.facts import (
    Accepted,
    Committed,
    Confirmation,
    ConfirmationsTaken,
    Delivered,
    Fact,
    ManagerNamed,
    PositionsReserved,
    Prepared,
    PurgePending,
    QueueCreated,
    QueueDeleted,
    QueueFilesKept,
    Restored,
    StreamEnded,
    pack_lookups,
)
from dray.manager.queue import ORDER_QUEUE, Account
from dray.manager.state import State
from dray.manager.state.state import RESTORE_LEAP_US
from dray.manager.state.stream_ends import StreamEnd, StreamEnds
from dray.model.classes import MessageClass, QueueKind
from dray.model.limits import RECEIPT_BYTES
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.store.heap.heap import Extent
from dray.wire.message_frames import MARK_FIRST, MARK_LAST
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

GONE = 9_999
ORDERS, NEWS = 100, 101
SIZE = 300


def state_after(*facts: Fact) -> State:
    """A state with a queue ORDERS and an outgoing one NEWS, after some facts."""
    state = State(DeliverySettings())
    orders = QueueCreated(ORDERS, "orders", str(QueueKind.PRIVATE), QueueOptions())
    outgoing, to = str(QueueKind.OUTGOING), ("far", 7340, "news")
    news = QueueCreated(NEWS, "dray://far:7340/news", outgoing, QueueOptions(), *to)
    for each in (ManagerNamed("m", "test"), orders, news, *facts):
        state.apply(each)
    return state


def tails(*numbers: int, route: int = 0, marks: int = 0) -> bytes:
    """Messages of these numbers, as a fact carries them."""
    staged = [Staged(Extent(1, each * SIZE, SIZE), 7, each, 0, 3, 0) for each in numbers]
    return b"".join([pack_tail(each, 0, 1, route=route, marks=marks) for each in staged])


def joined(queue: int, packed: bytes) -> Committed:
    return Committed(0, 1, [(queue, packed)], [])


def left(queue: int, *lookup_ids: int) -> Committed:
    return Committed(0, 1, [], [(queue, pack_lookups(list(lookup_ids)))])


def positions(state: State, queue: int) -> list[int]:
    return [lookup_id_of(each) for each in state.queues.numbered(queue).index.available()]


def test_positions_that_are_reserved_already_are_not_reserved_again(driver: ManagerDriver) -> None:
    number = driver.session().open("dray://far:7340/news")
    state = look_into(driver.manager).state
    queue = state.queues.numbered(number)
    upto = queue.next_lookup_id + 5
    for each in (upto, upto, upto - 1):
        state.apply(PositionsReserved(number, each, 0))
        assert queue.next_lookup_id == upto
        assert queue.stream.last == upto - 1, "the stream counts them all as taken"
    state.apply(PositionsReserved(GONE, upto, 0))
    driver.leave_unchecked()


def test_no_two_queues_have_one_name(driver: ManagerDriver) -> None:
    caller = driver.session()
    number, state = caller.create("orders"), look_into(driver.manager).state
    with pytest.raises(QueueExists, match="already a queue 'Orders'"):
        state.apply(QueueCreated(GONE, "Orders", str(QueueKind.PRIVATE), QueueOptions()))
    assert state.queues.named("orders").number == number
    driver.leave_unchecked()


def test_what_moves_to_a_queue_that_is_gone_gives_up_its_room(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a"))
    state = look_into(driver.manager).state
    (packed,) = state.queues.numbered(queue).index.everything()
    state.apply(Committed(0, 0, [], [], [(GONE, tail_of(packed))]))
    driver.store.sync()
    assert driver.store.live_bytes == 0
    driver.leave_unchecked()


def test_how_far_a_stream_was_heard_is_kept_though_its_queue_is_gone(driver: ManagerDriver) -> None:
    state = look_into(driver.manager).state
    state.apply(Committed(0, 0, [], [], heard=(GONE, 7)))
    assert state.heard[GONE] == 7
    driver.leave_unchecked()


def test_how_far_a_stream_was_heard_is_forgotten_with_its_queue(driver: ManagerDriver) -> None:
    number = driver.session().open("dray://far:7340/news")
    state = look_into(driver.manager).state
    state.apply(Committed(0, 0, [], [], heard=(number, 7)))
    state.apply(QueueDeleted(number, 0))
    assert number not in state.heard
    driver.leave_unchecked()


def test_a_log_that_begins_with_a_restore_is_refused(driver: ManagerDriver) -> None:
    state = State(look_into(driver.manager).state.delivery)
    with pytest.raises(StoreCorrupt, match="the log begins with a restore") as raised:
        state.apply(Restored(0, 1))
    assert raised.value.event == 2064


def test_the_oldest_end_is_told_of_only_if_it_is_older_than_the_time() -> None:
    ends, end = StreamEnds(), StreamEnd(1, "far", 7340, secure=False, when_us=5)
    assert ends.oldest_before(9) is None
    ends.ended(end)
    assert [ends.oldest_before(each) for each in (5, 6)] == [None, end]


def test_the_end_of_a_stream_is_forgotten_by_itself_and_its_peer_with_the_last() -> None:
    ends, far = StreamEnds(), Peer("far", 7340)
    for stream in (1, 2):
        ends.ended(StreamEnd(stream, *far, when_us=5))
    for stream, remaining in ((1, [2]), (1, [2]), (2, []), (2, [])):
        ends.forgotten(stream)
        assert ends.of(far) == remaining
        assert ends.wants(far) == bool(remaining)


def test_confirmations_wait_until_their_source_has_them_and_a_restore_gives_higher_ordinals() -> (
    None
):
    key = StreamKey("source", 1)
    told = [Confirmation(each, MessageClass.ACK_REACH_QUEUE) for each in (1, 2, 3)]
    state = state_after(Committed(0, 1, [], [], confirmations=[(*key, told)]))
    assert state.outbox.after(key, 0, 9) == (1, told)
    state.apply(ConfirmationsTaken(*key, 2))
    assert state.outbox.after(key, 0, 9) == (3, told[2:])
    state.apply(Restored(0, 1000))
    assert state.outbox.after(key, 0, 9) == (1000, told[2:])


def test_a_restore_counts_from_a_time_after_all_earlier_ones_whatever_the_clock_says() -> None:
    state = state_after(Restored(0, 1_000))
    assert state.restored_at(1_001) == 1_001
    early = [state.restored_at(1_000), state.restored_at(0), state.restored_at(7, 2_000)]
    assert min(early) >= 1_000 + RESTORE_LEAP_US
    assert len(set(early)) == len(early)


def test_a_restore_begins_queues_above_one_for_each_second_since_1970() -> None:
    """So that none has the number of a queue that was made after the backup."""
    assert state_after(Restored(0, 1_700_000_000_000_000)).next_queue >= 1_700_000_000


@pytest.mark.parametrize(("taken_us", "kept"), [(0, True), (5, False)])
def test_queue_files_are_written_anew_after_a_restore_from_a_backup_only(
    taken_us: int, *, kept: bool
) -> None:
    assert state_after(QueueFilesKept(), Restored(taken_us, 9)).queue_files_kept is kept


def test_what_is_delivered_leaves_with_its_bytes_and_the_ends_that_its_peer_has_heard() -> None:
    state = state_after(joined(NEWS, tails(1, 2, 3)))
    news = state.queues.numbered(NEWS)
    for route, position in ((5, 2), (6, 3)):
        news.truncated_transactions.ended(route, position)
    state.apply(Delivered(NEWS, 2))
    assert news.stream is not None
    assert (news.stream.floor, positions(state, NEWS)) == (2, [3])
    assert news.truncated_transactions.state() == [(6, 3)]
    assert state.ledger.stored[Account.COMPUTER] == SIZE


def test_messages_that_leave_count_no_more_and_no_purge_waits_for_them() -> None:
    purge = PurgePending(ORDERS, pack_lookups([1, 2]))
    state = state_after(joined(ORDERS, tails(1, 2, 3)), purge)
    orders = state.queues.numbered(ORDERS)
    state.drop_express(orders, iter([1]))
    assert (positions(state, ORDERS), orders.purge_pending) == ([2, 3], {2})
    state.apply(left(ORDERS, 2))
    assert (positions(state, ORDERS), orders.purge_pending) == ([3], set())
    assert (orders.gone_upto, state.ledger.stored[Account.COMPUTER]) == (2, SIZE)


def test_where_the_last_message_of_a_transaction_leaves_undelivered_its_end_is_kept() -> None:
    """Only of one that had others before it, and only in a queue that leads to another manager."""
    last, alone = (
        tails(1, route=5, marks=MARK_LAST),
        tails(2, route=6, marks=MARK_FIRST | MARK_LAST),
    )
    middle = tails(3, route=7)
    for queue, kept in ((NEWS, [(5, 1)]), (ORDERS, [])):
        state = state_after(joined(queue, last + alone + middle), left(queue, 1, 2, 3))
        assert state.queues.numbered(queue).truncated_transactions.state() == kept


@pytest.mark.parametrize(("queue", "kept"), [(NEWS, [(1, 2)]), (ORDERS, [])])
def test_an_end_of_a_stream_is_told_on_from_a_queue_that_forwards_and_from_no_other(
    queue: int, kept: list[tuple[int, int]]
) -> None:
    came = Accepted("s", 1, 1, 1, queue, 1, tails(1), origins=["s"], going=[("s", 9)])
    state = state_after(came, StreamEnded("s", 1, 2))
    found = state.queues.numbered(queue)
    assert not state.arrival_routes.any_going
    assert found.truncated_transactions.state() == kept
    assert found.next_lookup_id == 2 + len(kept)


def test_a_commit_forgets_what_was_prepared_and_keeps_the_receipt_that_came_with_it() -> None:
    receipt = b"r" * RECEIPT_BYTES
    committed = Committed(7, 1, [], [], heard=(NEWS, 2), receipt=receipt)
    state = state_after(Prepared(7, [], []), committed)
    stream = state.queues.numbered(NEWS).stream
    assert stream is not None
    assert (state.prepared, stream.receipt) == ({}, receipt)


def test_a_delivered_message_is_found_by_its_number_until_it_leaves() -> None:
    order = QueueCreated(ORDER_QUEUE, "order_queue$", str(QueueKind.SYSTEM), QueueOptions())
    awaiting = state_after(order, joined(ORDER_QUEUE, tails(11, 12, 13))).awaiting
    awaiting.look()
    awaiting.forget([2])
    for number, position in ((11, 1), (13, 3)):
        entry = awaiting.take(number)
        assert entry is not None
        assert lookup_id_of(entry) == position
    assert [awaiting.take(number) for number in (11, 12, 13)] == [None] * 3
