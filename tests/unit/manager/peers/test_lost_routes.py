"""Queues that are deleted with word under way, and addresses that lead back to their manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.events import Peer, Reachable
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire import peer_frames, queue_frames
from tests.unit.manager.change.test_departures import acknowledged, asking, dead
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.incoming.test_cut_transactions import carry_first_data, narrow, send_whole
from tests.unit.manager.net import Net, address

ORDERS = address("c", "orders")
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
DEAD = {"use_dead_letter_queue": True}


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ac")
    net["c"].session().create("orders")
    return net


@pytest.mark.parametrize("crash", [False, True])
def test_deleting_an_outgoing_queue_keeps_what_awaits_confirmation_in_doubt(
    net: Net, crash: bool
) -> None:
    caller = net["a"].session()
    caller.create("acks")
    full = Acknowledge.FULL_RECEIVE
    caller.send(caller.open(ORDERS), asking(b"there", full, **DEAD))
    other = caller.open(address("c", "other"))
    net["c"].session().create("other")
    caller.send(other, Message(body=b"elsewhere", **DEAD))
    net.deliver()
    net.block("a", "c")
    caller.send(caller.open(ORDERS), asking(b"here", full, **DEAD))
    if crash:
        net.crash("a")
        net.unblock("a", "c")
        net.advance(31.0)
        net.block("a", "c")
        caller = net["a"].session()
        caller.send(caller.open(ORDERS), asking(b"late", full, **DEAD))
    caller.call(queue_frames.DeleteQueue(ORDERS))
    purged = MessageClass.NACK_PURGED
    last = (purged, b"late") if crash else (purged, b"here")
    there = [(IN_DOUBT, b"there"), (IN_DOUBT, b"here")] if crash else [(IN_DOUBT, b"there")]
    assert dead(caller) == [*there, last]
    assert [each for each, _ in acknowledged(caller)] == [purged]
    info = caller.call(queue_frames.DescribeQueue("order_queue$")).info
    assert info.message_count == 1, "what another outgoing queue has delivered waits on"


def test_deleting_an_outgoing_queue_calls_nothing_undelivered_that_may_have_arrived(
    net: Net,
) -> None:
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"?", **DEAD))
    for _ in range(20):
        net._carry("a")
        if any(isinstance(head, peer_frames.Data) for _, _, head in net.said):
            break
        net._carry("c")
    caller.call(queue_frames.DeleteQueue(ORDERS))
    assert dead(caller) == [(IN_DOUBT, b"?")]


@pytest.mark.parametrize("kept", [DEAD, {}])
def test_many_messages_in_doubt_are_given_up_a_portion_at_a_time(
    net: Net, monkeypatch, kept: dict[str, bool]
) -> None:
    caller = net["a"].session()
    queue = caller.open(ORDERS)
    for number in range(4):
        caller.send(queue, Message(body=b"%d" % number, **kept))
    while not any(isinstance(head, peer_frames.Data) for _, _, head in net.said):
        net.step()
    # One fact fills the room of a turn.
    monkeypatch.setattr("dray.manager.disk.room.RoomLeft.portion_bytes", 1)
    caller.ask(queue_frames.DeleteQueue(ORDERS))
    left = []
    for _ in range(4):
        left.append(caller.call(queue_frames.DescribeQueue(ORDERS)).info.message_count)
        net["a"].advance(0.0)
    assert left == [3, 2, 1, 0]
    assert dead(caller) == [(IN_DOUBT, b"%d" % number) for number in range(4) if kept]


def test_word_of_a_queue_that_was_deleted_comes_over_a_later_connection(net: Net) -> None:
    caller = net["a"].session()
    caller.create("acks")
    caller.send(caller.open(ORDERS), asking(b"x", Acknowledge.FULL_RECEIVE, **DEAD))
    net.deliver()
    net.block("a", "c")
    net["c"].session().call(queue_frames.DeleteQueue("orders"))
    net.unblock("a", "c")
    net.advance(31.0)
    deleted = MessageClass.NACK_Q_DELETED
    assert dead(caller) == [(deleted, b"x")]
    assert [each for each, _ in acknowledged(caller)] == [deleted]
    assert caller.call(queue_frames.DescribeQueue("order_queue$")).info.message_count == 0


@pytest.mark.parametrize("connection", ["the same", "a new one"])
def test_a_queue_that_is_deleted_and_made_again_goes_on_with_its_streams(
    net: Net, connection: str
) -> None:
    caller = net["a"].session()
    queue = caller.open(ORDERS)
    caller.send(queue, Message(body=b"1"))
    net.deliver()
    receiver = net["c"].session()
    receiver.call(queue_frames.DeleteQueue("orders"))
    orders = receiver.create("orders")
    if connection == "a new one":
        net.cut("a", "c")
        net.advance(31.0)
    for body in (b"2", b"3"):
        caller.send(queue, Message(body=body))
        net.deliver()
    assert receiver.receive(orders)[1] == [b"2", b"3"]
    assert dead(caller) == []


def test_the_rest_of_a_transaction_does_not_join_a_queue_that_was_made_again(net: Net) -> None:
    narrow(net, "a")
    caller, receiver = net["a"].session(), net["c"].session()
    queue = caller.open(ORDERS)
    send_whole(caller, queue, *(Message(body=b"%d" % number) for number in range(4)))
    assert carry_first_data(net) == 2
    receiver.call(queue_frames.DeleteQueue("orders"))
    orders = receiver.create("orders")
    net.deliver()
    assert receiver.what_is_in("orders", peek=True)[1] == []
    refused = MessageClass.NACK_BAD_DST_Q
    assert dead(caller) == [(refused, b"2"), (refused, b"3")]
    send_whole(caller, queue, Message(body=b"4"), Message(body=b"5"))
    net.deliver()
    assert receiver.receive(orders)[1] == [b"4", b"5"]
    assert len(dead(caller)) == 2


def test_a_source_hears_that_a_queue_is_there_again_which_was_deleted_under_its_stream(
    net: Net,
) -> None:
    caller, receiver = net["a"].session(), net["c"].session()
    queue = caller.open(ORDERS)
    caller.send(queue, Message(body=b"1"))
    net.deliver()
    receiver.call(queue_frames.DeleteQueue("orders"))
    caller.send(queue, Message(body=b"2"))
    net.deliver()
    assert dead(caller) == [(MessageClass.NACK_BAD_DST_Q, b"2")]
    described = queue_frames.DescribeQueue(ORDERS)
    assert caller.call(described).info.delivery.refusal.code == "queue-not-found"
    receiver.create("orders")
    net.deliver()
    assert caller.call(described).info.delivery.refusal is None


@pytest.mark.parametrize("before", ["nothing", "a frame", "a message of its frame"])
def test_what_a_plain_queue_elsewhere_refuses_is_a_dead_letter_there_and_nowhere_else(
    net: Net, before: str
) -> None:
    receiver = net["c"].session()
    receiver.create("small", transactional=False, quota=400)
    caller = net["a"].session()
    caller.create("acks")
    queue = caller.open(address("c", "small"))
    fits = () if before == "nothing" else (Message(body=b"fits"),)
    if before == "a frame":
        caller.send(queue, *fits)
        net.deliver()
        fits = ()
    big = asking(bytes(1000), Acknowledge.FULL_RECEIVE, **DEAD, time_to_be_received=60.0)
    caller.send(queue, *fits, big)
    net.deliver()
    refused = MessageClass.NACK_Q_EXCEED_QUOTA
    assert dead(receiver, "system$;deadletter") == [(refused, bytes(1000))]
    assert [each for each, _ in acknowledged(caller)] == [refused]
    kept = [queue_frames.DescribeQueue(name) for name in ("small", "system$;deadletter")]
    assert net["c"].store.live_bytes == sum(receiver.call(each).info.byte_count for each in kept)
    net.crash("c")
    net.advance(100.0)
    receiver = net["c"].session()
    assert dead(receiver, "system$;deadletter") == [(refused, bytes(1000))]
    for name in ("system$;deadxact", "system$;deadletter"):
        assert dead(caller, name) == []
    assert caller.call(queue_frames.DescribeQueue("order_queue$")).info.message_count == 0


def test_what_a_plain_queue_elsewhere_took_is_not_in_doubt_at_its_source(net: Net) -> None:
    receiver = net["c"].session()
    receiver.create("plain", transactional=False)
    caller = net["a"].session()
    queue = caller.open(address("c", "plain"))
    caller.send(queue, Message(body=b"x", **DEAD, time_to_be_received=60.0))
    net.deliver()
    net.block("a", "c")
    net.advance(61.0)
    expired = [(MessageClass.NACK_RECEIVE_TIMEOUT, b"x")]
    assert dead(receiver, "system$;deadletter") == expired
    assert dead(caller) == []


def test_a_transaction_that_a_plain_queue_elsewhere_cannot_take_is_dead_at_its_source(
    net: Net,
) -> None:
    net["c"].session().create("plain", transactional=False)
    caller = net["a"].session()
    queue, transaction = caller.open(address("c", "plain")), caller.number_for()
    caller.send(queue, Message(body=b"x", **DEAD), transaction=transaction)
    caller.commit(transaction, 1)
    net.deliver()
    assert dead(caller) == [(MessageClass.NACK_NOT_TRANSACTIONAL_Q, b"x")]
    assert dead(net["c"].session(), "system$;deadletter") == []


def test_an_address_of_its_own_is_a_queue_of_this_manager(driver: ManagerDriver) -> None:
    driver.turn(Reachable(frozenset({Peer("here", 7340)})))
    caller = driver.session()
    orders = caller.create("orders")
    assert caller.open(address("here", "orders")) == orders
    with pytest.raises(errors.QueueNotFound):
        caller.open(address("here", "missing"))
    caller.create("acks")
    wanted = Message(
        body=b"x",
        acknowledge=Acknowledge.POSITIVE_ARRIVAL,
        administration_queue=address("here", "acks"),
    )
    caller.send(orders, wanted)
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.ACK_REACH_QUEUE]
    assert caller.call(queue_frames.DescribeQueue(address("here", "orders"))).info.name == "orders"
    assert caller.open(address("there", "orders")) != orders


def test_who_asks_to_forward_to_the_manager_that_he_asks_gets_its_queue(tmp_path: Path) -> None:
    net = Net(tmp_path, "ab", {"a": {"c": "b"}})
    net["b"].turn(Reachable(frozenset({Peer("c", 7340)})))
    receiver = net["b"].session()
    orders = receiver.create("orders")
    caller = net["a"].session()
    for name in ("orders", "system$;deadxact"):
        caller.send(caller.open(address("c", name)), Message(body=b"x", **DEAD))
    net.deliver()
    assert receiver.receive(orders)[1] == [b"x"]
    assert dead(caller) == [(MessageClass.NACK_ACCESS_DENIED, b"x")]


def test_messages_that_wait_for_an_address_that_becomes_its_own_are_shown_and_given_up_in_order(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, "ab", {"a": {"c": "b"}})
    net.block("b", "c")
    caller = net["a"].session()
    outgoing = caller.open(address("c", "orders"))
    caller.send(outgoing, Message(body=b"before", **DEAD))
    net.deliver()
    net.crash("b")
    net["b"].turn(Reachable(frozenset({Peer("c", 7340)})))
    local = net["b"].session()
    orders = local.create("orders")
    caller.send(outgoing, Message(body=b"after", **DEAD))
    net.advance(31.0)
    info = local.call(queue_frames.DescribeQueue(address("c", "orders"))).info
    assert (info.kind, info.message_count) == ("outgoing", 2), "nothing overtakes what waits"
    assert info.delivery is not None
    assert "dray queue delete" in info.delivery.history[-1].reason
    local.call(queue_frames.DeleteQueue(address("c", "orders")))
    net.deliver()
    assert [body for _, body in dead(caller)] == [b"before", b"after"]
    caller.send(outgoing, Message(body=b"anew"))
    net.deliver()
    assert local.receive(orders)[1] == [b"anew"]
