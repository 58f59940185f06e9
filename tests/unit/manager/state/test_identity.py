"""Incarnations of the store, births of queues and known peers: kept by facts, over every start."""

from __future__ import annotations

import shutil

import pytest

from dray.delivery.lineage import INCARNATIONS_KEPT
from dray.errors import QueueRecreated
from dray.manager.facts import Restored
from dray.model.message import Message
from dray.testing.inspection import look_into
from dray.wire import frames
from tests.unit.manager.conftest import Desk


def incarnations(desk: Desk) -> list[int]:
    return [each.number for each in look_into(desk.manager).state.identity.incarnations]


def described(desk: Desk, name: str = "orders"):
    found = desk.session().call(frames.DescribeQueue(name))
    assert isinstance(found, frames.QueueState)
    return found.info


def checkpoint(desk: Desk) -> None:
    desk.store.checkpoint(desk.manager.snapshot())


def test_every_start_begins_a_incarnation_and_copies_begin_others(desk: Desk, tmp_path) -> None:
    first = incarnations(desk)
    desk.crash()
    second = incarnations(desk)
    shutil.copytree(desk.path, tmp_path / "copy")
    copy = Desk(tmp_path / "copy")
    desk.crash()
    assert incarnations(desk)[: len(second)] == incarnations(copy)[: len(second)] == second
    assert second[: len(first)] == first
    assert incarnations(desk)[-1] != incarnations(copy)[-1]


@pytest.mark.slow
def test_a_store_says_a_bounded_number_of_incarnations(desk: Desk) -> None:
    for _ in range(INCARNATIONS_KEPT + 5):
        desk.crash()
    assert len(incarnations(desk)) == INCARNATIONS_KEPT
    assert incarnations(desk) == sorted(incarnations(desk))


def test_a_incarnation_knows_how_many_facts_the_store_held_also_after_a_checkpoint(
    desk: Desk,
) -> None:
    desk.session().create("orders")
    checkpoint(desk)
    desk.crash()
    before = look_into(desk.manager).state.identity.incarnations[-1].age
    caller = desk.session()
    caller.send(caller.open("orders"), Message())
    desk.crash()
    assert look_into(desk.manager).state.identity.incarnations[-1].age > before


def test_a_queue_that_is_made_again_has_another_birth_number_and_higher_positions(
    desk: Desk,
) -> None:
    caller = desk.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, Message(), Message(), Message())
    caller.receive(queue, max_messages=2)
    born = described(desk).born
    caller.call(frames.DeleteQueue("orders"))
    desk.crash()
    caller = desk.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, Message())
    (envelope,), _ = caller.receive(queue)
    assert described(desk).born > born
    assert envelope.lookup_id > 3
    (copy,), _ = caller.receive(caller.open("orders;journal"))
    assert copy.lookup_id > 2


def test_a_restore_lets_no_new_queue_begin_at_positions_that_the_lost_incarnation_gave_out(
    desk: Desk,
) -> None:
    when_us = int(desk.now * 1e6)
    look_into(desk.manager).record(Restored(0, when_us))
    caller = desk.session()
    queue = caller.create("orders")
    caller.send(queue, Message())
    (envelope,), _ = caller.receive(queue)
    assert envelope.lookup_id >= when_us


def test_settle_refuses_a_position_of_a_queue_that_was_made_again(desk: Desk) -> None:
    caller = desk.session()
    caller.create("orders")
    born = described(desk).born
    caller.call(frames.DeleteQueue("orders"))
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"unread"))
    with pytest.raises(QueueRecreated, match="nothing was settled"):
        caller.call(frames.Settle(queue, 1 << 40, 0, born))
    assert caller.receive(queue)[1] == [b"unread"]


def test_settle_takes_the_birth_number_of_the_queue_that_is_there(desk: Desk) -> None:
    caller = desk.session()
    queue = caller.create("orders")
    caller.send(queue, Message(), Message())
    done = caller.call(frames.Settle(queue, 1, 0, described(desk).born))
    assert done == frames.Done(1)
