"""What a fact makes of the state where its queue is gone, or says what is known already."""

from __future__ import annotations

import pytest

from dray.errors import QueueExists, StoreCorrupt
from dray.manager.entries import tail_of
from dray.manager.facts import Committed, PositionsReserved, QueueCreated, QueueDeleted, Restored
from dray.manager.state import State
from dray.manager.state.stream_ends import StreamEnd, StreamEnds
from dray.model.classes import QueueKind
from dray.model.message import Message
from dray.model.queue import QueueOptions
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

GONE = 9_999


def test_positions_that_are_reserved_already_are_not_reserved_again(driver: ManagerDriver) -> None:
    number = driver.session().open("dray://far:7340/news")
    state = look_into(driver.manager).state
    queue = state.queues.numbered(number)
    upto = queue.next_lookup_id + 5
    for each in (upto, upto, upto - 1):
        state.apply(PositionsReserved(number, each, 0))
        assert queue.next_lookup_id == upto
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
