"""Managers that forward: several hops, with everything that one hop promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.model.classes import Acknowledge, MessageClass
from dray.model.limits import HOPS_MAX
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import message_frames, peer_frames, queue_frames
from tests.unit.manager.change.test_departures import acknowledged, asking, dead
from tests.unit.manager.net import Net, address, peer
from tests.unit.manager.requests.test_large_messages import send_large, take_large

ORDERS = address("c", "orders")


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    net["c"].session().create("orders")
    return net


def bodies_at(net: Net, host: str, queue: str = "orders") -> list[bytes]:
    return net[host].session().what_is_in(queue, max_messages=1000)[1]


def test_what_is_routed_over_another_manager_arrives_once_and_in_order(net: Net) -> None:
    caller = net["a"].session()
    queue = caller.open(ORDERS)
    for n in range(10):
        caller.send(queue, Message(body=b"%d" % n), Message(body=b"%d'" % n))
    net.deliver()
    expected = [body for n in range(10) for body in (b"%d" % n, b"%d'" % n)]
    assert bodies_at(net, "c") == expected
    assert [net[host].store.live_bytes for host in "ab"] == [0, 0]
    assert not [head for source, goal, head in net.said if {source, goal} == {"a", "c"}]


@pytest.mark.parametrize("host", ["a", "b", "c"])
@pytest.mark.parametrize("cut_first", [False, True])
def test_a_crash_of_any_of_them_loses_nothing_and_repeats_nothing(
    net: Net, host: str, cut_first: bool
) -> None:
    caller = net["a"].session()
    queue = caller.open(ORDERS)
    if cut_first:
        net.block("b", "c")
    for n in range(3):
        caller.send(queue, Message(body=b"%d" % n))
        net.deliver()
    net.crash(host)
    net.unblock("b", "c")
    caller = net["a"].session()
    queue = caller.open(ORDERS)
    caller.send(queue, Message(body=b"3"))
    net.deliver()
    for _ in range(5):
        net.advance(31.0)
    assert bodies_at(net, "c") == [b"0", b"1", b"2", b"3"]


def test_what_becomes_of_a_message_is_told_back_over_every_hop(net: Net) -> None:
    caller = net["a"].session()
    caller.create("acks")
    queue = caller.open(ORDERS)
    wanted = {"use_dead_letter_queue": True, "use_journal_queue": True}
    both = Acknowledge.FULL_RECEIVE | Acknowledge.POSITIVE_ARRIVAL
    for body in (b"received", b"purged"):
        caller.send(queue, asking(body, both, **wanted))
    net.deliver()
    arrived = MessageClass.ACK_REACH_QUEUE
    assert [each for each, _ in acknowledged(caller)] == [arrived, arrived]
    receiver = net["c"].session()
    orders = receiver.open("orders")
    receiver.receive(orders, max_messages=1)
    receiver.call(queue_frames.PurgeQueue(orders))
    net.crash("b")
    net.advance(31.0)
    caller.send(queue, Message(body=b"wakes the links"))
    net.deliver()
    net.advance(31.0)
    purged = MessageClass.NACK_Q_PURGED
    caller = net["a"].session()
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.ACK_RECEIVE, purged]
    assert dead(caller) == [(purged, b"purged")]
    assert dead(caller, "system$;journal") == [(MessageClass.NORMAL, b"received")]
    assert dead(net["b"].session()) == []


def test_a_queue_that_does_not_exist_behind_a_hop_is_told_to_the_origin(net: Net) -> None:
    caller = net["a"].session()
    caller.send(caller.open(address("c", "nowhere")), Message(use_dead_letter_queue=True))
    net.deliver()
    assert dead(caller) == [(MessageClass.NACK_BAD_DST_Q, b"")]


def test_messages_that_go_in_a_circle_are_ended_by_their_hops(tmp_path: Path) -> None:
    net = Net(tmp_path, "ab", {"a": {"c": "b"}, "b": {"c": "a"}})
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"round", use_dead_letter_queue=True))
    net.deliver()
    assert dead(caller) == [(MessageClass.NACK_HOP_COUNT_EXCEEDED, b"round")]
    circled = [head for _, _, head in net.said if isinstance(head, peer_frames.Data)]
    assert len(circled) == HOPS_MAX + 1
    assert net["b"].store.live_bytes == 0


@pytest.mark.parametrize("circle", ["bd", "bde"])
def test_word_of_what_went_in_a_circle_of_others_comes_back_to_the_origin(
    tmp_path: Path, circle: str
) -> None:
    """The origin is not in the circle: word must leave it where the message came in."""
    routes = {each: {"c": goal} for each, goal in zip(circle, circle[1:] + circle[0], strict=True)}
    net = Net(tmp_path, "a" + circle, {"a": {"c": "b"}, **routes})
    caller = net["a"].session()
    caller.create("acks")
    caller.send(caller.open(ORDERS), asking(b"round", Acknowledge(15), use_dead_letter_queue=True))
    for _ in range(200):
        if not sum(net._carry(host) for host in net.drivers):
            break
    else:
        raise AssertionError("word goes round for ever")
    assert dead(caller) == [(MessageClass.NACK_HOP_COUNT_EXCEEDED, b"round")]
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_HOP_COUNT_EXCEEDED]


def test_word_that_cannot_leave_a_circle_ends_after_as_many_hops_as_a_message(
    tmp_path: Path,
) -> None:
    """The origin has deleted its outgoing queue: what is left are the ways of the circle."""
    net = Net(tmp_path, "abd", {"a": {"c": "b"}, "b": {"c": "d"}, "d": {"c": "b"}})
    net.block("b", "d")
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"round", use_dead_letter_queue=True))
    net.deliver()
    caller.call(queue_frames.DeleteQueue(ORDERS))
    net.deliver()
    net.unblock("b", "d")
    net["b"].advance(31.0)
    for _ in range(400):
        if not sum(net._carry(host) for host in net.drivers):
            break
    else:
        raise AssertionError("word goes round for ever")
    told = [head for _, _, head in net.said if isinstance(head, peer_frames.Confirmations)]
    assert max(each.hops for head in told for each in head.confirmations) == HOPS_MAX
    assert dead(caller) == [(MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER, b"round")]


def test_word_comes_back_by_the_way_that_is_left_when_another_was_given_up(tmp_path: Path) -> None:
    """First over d and b, then straight over b."""
    net = Net(tmp_path, "abcd", {"a": {"c": "d"}, "d": {"c": "b"}})
    net["c"].session().create("orders")
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"1"))
    net.deliver()
    caller.call(queue_frames.DeleteQueue(ORDERS))
    net["d"].session().call(queue_frames.DeleteQueue(ORDERS))
    net.deliver()
    net["a"].options["routes"] = {peer("c"): peer("b")}
    net.crash("a")
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"2", use_dead_letter_queue=True))
    net.deliver()
    receiver = net["c"].session()
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))
    net.deliver()
    assert dead(net["a"].session()) == [(MessageClass.NACK_Q_PURGED, b"2")]


def test_the_time_to_reach_the_queue_counts_down_over_hops_whatever_the_clocks_say(
    net: Net,
) -> None:
    caller = net["a"].session()
    net["b"].now += 86_400.0
    net["c"].now += 2 * 86_400.0
    net.block("a", "b")
    net.block("b", "c")
    timed = {"time_to_reach_queue": 60.0, "time_to_be_received": 100.0}
    queue = caller.open(ORDERS)
    caller.send(queue, Message(body=b"in time", **timed))
    net.advance(20.0)
    net.unblock("a", "b")
    net.advance(20.0)
    net.unblock("b", "c")
    net.advance(10.0)
    receiver = net["c"].session()
    orders = receiver.open("orders")
    net.advance(45.0)
    assert receiver.receive(orders, peek=True)[1] == [b"in time"]
    net.advance(10.0)
    with pytest.raises(errors.ReceiveTimeout):
        receiver.receive(orders)


def test_a_message_whose_time_ends_as_it_is_sent_has_no_time_left_there(net: Net) -> None:
    caller = net["a"].session()
    timed = {"time_to_reach_queue": 5.0, "time_to_be_received": 5.0}
    caller.send(caller.open(ORDERS), Message(**timed))
    while not any(isinstance(head, peer_frames.OpenStream) for _, _, head in net.said):
        assert net.step()
    net["a"].now += 10.0
    net.deliver()
    (sent, *_) = [head for _, _, head in net.said if isinstance(head, peer_frames.Data)]
    assert [(each.reaching_us, each.remaining_us) for each in sent.envelopes] == [(0, 0)]


def test_what_expires_at_a_hop_is_dead_lettered_at_the_origin(net: Net) -> None:
    caller = net["a"].session()
    net.block("b", "c")
    late = Message(body=b"late", time_to_reach_queue=60.0, use_dead_letter_queue=True)
    caller.send(caller.open(ORDERS), late)
    net.advance(50.0)
    assert dead(caller) == []
    net.advance(11.0)
    assert dead(caller) == [(MessageClass.NACK_REACH_QUEUE_TIMEOUT, b"late")]


def test_large_messages_and_whole_transactions_of_two_origins_do_not_mix(tmp_path: Path) -> None:
    """Both origins count their transactions from the same number; one stream brings both."""
    net = Net(tmp_path, "abcd", {"a": {"c": "b"}, "d": {"c": "b"}})
    receiver = net["c"].session()
    orders, large = receiver.create("orders"), receiver.create("large")
    sequences = []
    for host in "ad":
        caller = net[host].session()
        queue, transaction = caller.open(ORDERS), caller.number_for()
        caller.send(queue, Message(body=host.encode()), transaction=transaction)
        caller.send(queue, Message(body=host.encode() * 2), transaction=transaction)
        caller.commit(transaction, 2)
        transaction = caller.number_for()
        queue = caller.open(address("c", "large"))
        sequences.append((send_large(caller, queue, 5, transaction), id_named(host)))
        caller.commit(transaction, 3)
    net.deliver()
    for _ in "ad":
        whole = message_frames.ReceiveTransaction(orders, receiver.number_for(), 0.0)
        head, body = receiver.call_whole(whole)
        assert len(head.envelopes) == 2
        assert (b"a" in body[-2:]) != (b"d" in body[-2:])
        assert head.missing == []
    found = [take_large(receiver, large, receiver.number_for()) for _ in "ad"]
    assert [(each.sequence, each.source) for each in found] == sequences


def test_what_a_hop_has_sent_and_must_expire_is_in_doubt_and_acknowledged_by_nobody(
    net: Net,
) -> None:
    caller = net["a"].session()
    caller.create("acks")
    late = asking(b"?", Acknowledge(15), time_to_reach_queue=60.0, use_dead_letter_queue=True)
    caller.send(caller.open(ORDERS), late)
    for host in "cab" * 10:
        net._carry(host)
        if any(who == "b" and isinstance(head, peer_frames.Data) for who, _, head in net.said):
            break
    net["c"].effects.clear()
    net.block("b", "c")
    net.deliver()
    for _ in range(3):
        net.advance(31.0)
    assert dead(caller) == [(MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER, b"?")]
    assert [each for each, _ in acknowledged(caller)] == []
    assert bodies_at(net, "c") == [b"?"]
