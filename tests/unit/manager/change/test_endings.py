"""Where messages end, and who is told: what seeded worlds once found wrong (`testing/fates.py`)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire import message_frames, peer_frames
from tests.unit.manager.change.test_departures import acknowledged, asking, dead
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair, pair  # noqa: F401 - a fixture

ALL = Acknowledge(15)
ACKS_THERE = "dray://127.0.0.1:7340/acks"


def test_what_is_taken_out_of_a_journal_is_not_journaled_and_acknowledged_again(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", Acknowledge.POSITIVE_RECEIVE, use_journal_queue=True))
    caller.receive(queue)
    assert len(acknowledged(caller)) == 1
    journal = caller.open("system$;journal")
    assert caller.receive(journal)[1] == [b"a"]
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(journal)
    assert acknowledged(caller) == []


def test_what_is_taken_out_of_a_dead_letter_queue_is_told_to_nobody(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", ALL, use_dead_letter_queue=True, time_to_be_received=1.0))
    driver.advance(2.0)
    assert len(acknowledged(caller)) == 2
    caller.receive(caller.open("system$;deadxact"))
    assert acknowledged(caller) == []


def test_nothing_expires_in_a_journal(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a", use_journal_queue=True, time_to_be_received=5.0))
    caller.receive(queue)
    driver.advance(10.0)
    assert caller.receive(caller.open("system$;journal"))[1] == [b"a"]


def test_a_message_that_was_put_back_expires_once(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"a", use_dead_letter_queue=True, time_to_be_received=5.0))
    for _ in range(2):
        transaction = caller.number_for()
        caller.receive(queue, transaction=transaction)
        caller.call(message_frames.Abort(transaction))
    driver.advance(10.0)
    assert dead(caller) == [(MessageClass.NACK_RECEIVE_TIMEOUT, b"a")]


def test_arrival_is_acknowledged_though_a_crash_came_between_the_two_phases(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, asking(b"a", Acknowledge.POSITIVE_ARRIVAL), transaction=transaction)
    caller.call(message_frames.Prepare(transaction, 1))
    driver.crash()
    caller = driver.session()
    transaction_id = f"{driver.manager_id}\\{transaction}"
    caller.call(message_frames.SettlePrepared(transaction_id, commit=True))
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.ACK_REACH_QUEUE]


@pytest.mark.parametrize("transactional", [True, False])
def test_acknowledgments_reach_a_queue_of_either_kind_at_another_manager(
    pair: Pair,  # noqa: F811
    transactional: bool,
) -> None:
    there = pair.destination.session()
    there.create("acks", transactional=transactional)
    caller = pair.source.session()
    here = caller.create("here")
    told = {"administration_queue": ACKS_THERE, "acknowledge": ALL}
    caller.send(here, Message(body=b"a", **told))
    pair.deliver()
    assert [each for each, _ in acknowledged(there)] == [MessageClass.ACK_REACH_QUEUE]


def test_what_was_sent_and_not_acknowledged_expires_in_doubt(pair: Pair) -> None:  # noqa: F811
    """KB 290892: what may be delivered is never called undelivered."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    mortal = {"time_to_reach_queue": 5.0, "use_dead_letter_queue": True}
    caller.send(queue, Message(body=b"perhaps", **mortal))
    while not any(isinstance(head, peer_frames.Data) for head in pair.said):
        pair.deliver(upto=1)
    pair.destination.effects.clear()
    pair.cut()
    pair.source.crash()
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"never sent", **mortal))
    pair.source.effects.clear()
    pair.source.advance(6.0)
    assert dead(caller) == [
        (MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER, b"perhaps"),
        (MessageClass.NACK_REACH_QUEUE_TIMEOUT, b"never sent"),
    ]


def test_news_comes_though_there_is_nothing_more_to_deliver(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    caller.create("acks")
    caller.send(caller.open(ADDRESS), asking(b"a", Acknowledge.POSITIVE_RECEIVE))
    pair.deliver()
    pair.cut()
    receiver = pair.destination.session()
    receiver.receive(receiver.open("orders"))
    pair.source.advance(10.0)
    pair.deliver()
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.ACK_RECEIVE]


def test_a_dead_letter_stays_where_it_could_not_be_delivered_and_nowhere_else(
    pair: Pair,  # noqa: F811
) -> None:
    there = pair.destination.session()
    there.create("loose", transactional=False)
    caller = pair.source.session()
    queue = caller.open("dray://127.0.0.1:7340/loose")
    short = Message(body=b"a", use_dead_letter_queue=True, time_to_be_received=5.0)
    caller.send(queue, short)
    pair.deliver()
    pair.destination.advance(6.0)
    pair.deliver()
    expired = [(MessageClass.NACK_RECEIVE_TIMEOUT, b"a")]
    assert dead(there, "system$;deadletter") == expired
    assert dead(caller) == []
    assert pair.source.store.live_bytes == 0
