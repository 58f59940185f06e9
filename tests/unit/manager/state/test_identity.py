"""Incarnations of the store, births of queues and known peers: kept by facts, over every start."""

from __future__ import annotations

import shutil

import pytest

from dray.delivery.lineage import INCARNATIONS_KEPT
from dray.errors import QueueRecreated
from dray.manager.events import Peer
from dray.manager.facts import ManagerNamed, Restored, SourceBound, TokenSet
from dray.manager.state.identity import IdentitySnapshot, StoreIdentity
from dray.model.message import Message
from dray.wire import frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver


def incarnations(driver: ManagerDriver) -> list[int]:
    return [each.number for each in look_into(driver.manager).state.identity.incarnations]


def described(driver: ManagerDriver, name: str = "orders"):
    found = driver.session().call(queue_frames.DescribeQueue(name))
    assert isinstance(found, queue_frames.QueueState)
    return found.info


def checkpoint(driver: ManagerDriver) -> None:
    driver.store.checkpoint(driver.manager.snapshot())


def test_every_start_begins_an_incarnation_and_copies_begin_others(
    driver: ManagerDriver, tmp_path
) -> None:
    first = incarnations(driver)
    driver.crash()
    second = incarnations(driver)
    shutil.copytree(driver.path, tmp_path / "copy")
    copy = ManagerDriver(tmp_path / "copy")
    driver.crash()
    assert incarnations(driver)[: len(second)] == incarnations(copy)[: len(second)] == second
    assert second[: len(first)] == first
    assert incarnations(driver)[-1] != incarnations(copy)[-1]


@pytest.mark.slow
def test_a_store_says_a_bounded_number_of_incarnations(driver: ManagerDriver) -> None:
    for _ in range(INCARNATIONS_KEPT + 5):
        driver.crash()
    assert len(incarnations(driver)) == INCARNATIONS_KEPT
    assert incarnations(driver) == sorted(incarnations(driver))


def test_the_age_of_a_store_is_the_number_of_its_facts(driver: ManagerDriver) -> None:
    driver.session().create("orders")
    facts = driver.store._log.next_fact
    assert look_into(driver.manager).state.identity.age == facts > 0


def test_an_incarnation_knows_how_many_facts_the_store_held_also_after_a_checkpoint(
    driver: ManagerDriver,
) -> None:
    driver.session().create("orders")
    checkpoint(driver)
    driver.crash()
    before = look_into(driver.manager).state.identity.incarnations[-1].age
    caller = driver.session()
    caller.send(caller.open("orders"), Message())
    driver.crash()
    assert look_into(driver.manager).state.identity.incarnations[-1].age > before


def test_a_queue_that_is_made_again_has_another_birth_number_and_higher_positions(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, Message(), Message(), Message())
    caller.receive(queue, max_messages=2)
    born = described(driver).born
    caller.call(queue_frames.DeleteQueue("orders"))
    driver.crash()
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, Message())
    (envelope,), _ = caller.receive(queue)
    assert described(driver).born > born
    assert envelope.lookup_id > 3
    (copy,), _ = caller.receive(caller.open("orders;journal"))
    assert copy.lookup_id > 2


def test_a_restore_lets_no_new_queue_begin_at_positions_that_the_lost_incarnation_gave_out(
    driver: ManagerDriver,
) -> None:
    when_us = int(driver.now * 1e6)
    look_into(driver.manager).record(Restored(0, when_us))
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message())
    (envelope,), _ = caller.receive(queue)
    assert envelope.lookup_id >= when_us


def test_a_restore_is_another_birth_of_every_queue(driver: ManagerDriver) -> None:
    """Messages that had left since the backup are back, at positions that readers have passed."""
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message())
    before = described(driver).born
    for when_us in (int(driver.now * 1e6), 1):
        look_into(driver.manager).record(Restored(0, when_us))
        assert described(driver).born > before
        with pytest.raises(QueueRecreated, match="restored"):
            caller.call(message_frames.Settle(queue, 1, 0, before))
        before = described(driver).born
    driver.crash()
    assert described(driver).born == before
    caller = driver.session()
    caller.create("later")
    assert described(driver, "later").born > before


def test_settle_refuses_a_position_of_a_queue_that_was_made_again(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("orders")
    born = described(driver).born
    caller.call(queue_frames.DeleteQueue("orders"))
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"unread"))
    with pytest.raises(QueueRecreated, match="nothing was settled"):
        caller.call(message_frames.Settle(queue, 1 << 40, 0, born))
    assert caller.receive(queue)[1] == [b"unread"]


def test_settle_takes_the_birth_number_of_the_queue_that_is_there(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(), Message())
    done = caller.call(message_frames.Settle(queue, 1, 0, described(driver).born))
    assert done == frames.Done(1)


def test_to_a_peer_that_was_never_met_nothing_was_sent(driver: ManagerDriver) -> None:
    assert look_into(driver.manager).state.identity.past(Peer("never.met", 7340)).sent_in == 0


def test_before_its_first_fact_a_store_has_no_past() -> None:
    identity = StoreIdentity()
    assert identity.snapshot() == IdentitySnapshot([], 0, 0, [], b"")
    assert (identity.incarnation, identity.token_expires_us) == (0, 0)


def test_a_queue_is_born_at_its_time_or_behind_the_one_before() -> None:
    identity = StoreIdentity()
    assert [identity.next_birth(now_us) for now_us in (0, 1, 7)] == [1, 1, 7]
    identity.born = 7
    assert identity.next_birth(5) > 7


def test_of_a_receipt_that_nobody_here_has_written_no_restore_is_known() -> None:
    identity = StoreIdentity()
    identity.apply(ManagerNamed("m", "test", bytes(range(32))))
    identity.apply(Restored(0, 5))
    assert identity.judge(identity.receipt())[1] == 5
    assert identity.judge(b"")[1] == 0


def test_the_next_token_to_expire_is_the_soonest_that_has_not() -> None:
    identity = StoreIdentity()
    for name, times_us in (("never", (1, 0)), ("soon", (1, 5)), ("late", (1, 9))):
        identity.apply(TokenSet(name, b"digest", times_us))
    found = []
    for now_us in (4, 5, 9):
        identity.await_expiry(now_us)
        found.append(identity.token_expires_us)
    assert found == [5, 9, 0]


def test_managers_of_a_caller_are_counted_until_they_are_bound_no_more() -> None:
    identity = StoreIdentity()
    for source, caller in (("a", "one"), ("b", "one"), ("c", "one"), ("a", "two"), ("b", "")):
        identity.apply(SourceBound(source, caller, 1))
    assert identity.bound_to == {"one": 1, "two": 1}
