"""Express messages between managers: lost by a crash perhaps, never twice, never out of order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from dray.errors import StoreFull
from dray.manager.notices import NoticeKind
from dray.model.message import Message
from dray.wire import queue_frames
from tests.unit.manager.change.test_express import express, lasting
from tests.unit.manager.net import Net, address

NEWS = address("b", "news")


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    for host in "bc":
        net[host].session().create("news", transactional=False)
    net["b"].session().create("orders")
    return net


def introduced(net: Net, name: str = NEWS) -> int:
    """Let the source learn of what kind a queue is; gives the outgoing queue's number."""
    caller = net["a"].session()
    queue = caller.open(name)
    caller.send(queue, *lasting("first"))
    net.deliver()
    return queue


def send(net: Net, *messages: Message, name: str = NEWS) -> None:
    caller = net["a"].session()
    caller.send(caller.open(name), *messages)


def info(net: Net, host: str, name: str):
    return net[host].session().call(queue_frames.DescribeQueue(name)).info


def take(net: Net, host: str = "b", name: str = "news") -> list[bytes]:
    return net[host].session().what_is_in(name, max_messages=1000)[1]


def settle(net: Net) -> None:
    for _ in range(5):
        net.advance(31.0)


def test_until_the_peer_has_said_that_its_queue_takes_them_nothing_is_express(net):
    send(net, *express("a"))
    assert info(net, "a", NEWS).express_count == 0
    net.crash("a")
    net.deliver()
    settle(net)
    assert take(net) == [b"a"]


def test_an_express_message_is_express_on_its_way_and_at_its_end(net):
    introduced(net)
    net.block("a", "b")
    send(net, *express("a"))
    assert info(net, "a", NEWS).express_count == 1
    caller = net["a"].session()
    envelopes, _ = caller.receive(caller.open(NEWS), peek=True)
    assert [each.transaction for each in envelopes] == [0]
    net.unblock("a", "b")
    settle(net)
    assert info(net, "a", NEWS).message_count == 0
    assert net["a"].store.live_bytes == 0
    assert info(net, "b", "news").express_count == 1
    net.crash("b")
    settle(net)
    assert take(net) == [b"first"]


def test_on_the_way_to_a_transactional_queue_every_message_is_recoverable(net):
    name = address("b", "orders")
    introduced(net, name)
    net.block("a", "b")
    send(net, *express("a"), name=name)
    net.crash("a")
    net.unblock("a", "b")
    settle(net)
    net.crash("b")
    settle(net)
    assert take(net, "b", "orders") == [b"first", b"a"]


def test_what_is_sent_in_a_transaction_is_recoverable_on_its_way(net):
    queue = introduced(net)
    net.block("a", "b")
    caller = net["a"].session()
    transaction = caller.number_for()
    caller.send(queue, *express("a"), transaction=transaction)
    caller.commit(transaction, 1)
    assert info(net, "a", NEWS).express_count == 0


def test_a_batch_with_a_recoverable_message_in_it_is_recoverable_on_its_way(net):
    introduced(net)
    net.block("a", "b")
    send(net, *express("a"), *lasting("b"))
    net.crash("a")
    net.unblock("a", "b")
    settle(net)
    assert take(net) == [b"first", b"a", b"b"]


def test_after_a_crash_of_the_source_its_stream_goes_on_behind_what_is_lost(net):
    introduced(net)
    net.block("a", "b")
    send(net, *express("lost 1"))
    send(net, *lasting("kept"))
    send(net, *express("lost 2"))
    net.crash("a")
    send(net, *lasting("after"))
    net.unblock("a", "b")
    settle(net)
    assert take(net) == [b"first", b"kept", b"after"]
    send(net, *express("and on"))
    net.deliver()
    assert take(net) == [b"and on"]
    assert info(net, "a", NEWS).state == "connected"


def test_what_the_destination_has_and_the_source_has_forgotten_is_no_divergence(net):
    introduced(net)
    send(net, *express("delivered"))
    assert net._carry("a") == 1
    # The order ack is lost, and with the source all memory of what it was for.
    net["b"].effects.clear()
    net.crash("a")
    send(net, *express("next"))
    settle(net)
    assert take(net) == [b"first", b"delivered", b"next"]
    assert info(net, "a", NEWS).state == "connected"


def test_an_express_message_that_was_received_never_comes_again(net):
    introduced(net)
    send(net, *express("once"))
    net.deliver()
    assert take(net) == [b"first", b"once"]
    net.crash("b")
    settle(net)
    assert take(net) == []


def test_messages_of_both_kinds_arrive_in_the_order_in_which_they_were_sent(net):
    introduced(net)
    net.block("a", "b")
    for number in range(4):
        send(net, *express(f"e{number}"))
        send(net, *lasting(f"r{number}"))
    net.unblock("a", "b")
    settle(net)
    caller = net["b"].session()
    queue = caller.open("news")
    envelopes, found = caller.receive(queue, peek=True)
    assert found == [b"first", *(b"%b%d" % (k, n) for n in range(4) for k in (b"e", b"r"))]
    where = dict(zip(found, [each.lookup_id for each in envelopes], strict=True))
    net.crash("b")
    caller = net["b"].session()
    envelopes, found = caller.receive(queue, peek=True)
    assert found == [b"first", b"r0", b"r1", b"r2", b"r3"]
    assert [each.lookup_id for each in envelopes] == [where[body] for body in found]


def test_an_express_message_whose_sender_wants_a_journal_copy_waits_for_word_durably(net):
    introduced(net)
    send(net, *express("wanted", use_journal_queue=True))
    net.deliver()
    assert info(net, "a", "order_queue$").message_count == 1
    net.crash("a")
    settle(net)
    assert take(net) == [b"first", b"wanted"]
    settle(net)
    assert take(net, "a", "system$;journal") == [b"wanted"]


def test_an_express_message_that_cannot_be_kept_until_word_comes_is_said(net, monkeypatch):
    introduced(net)

    def full(*_: object) -> None:
        raise StoreFull("the disk is full", file="p0000001.mq")

    send(net, *express("wanted", use_journal_queue=True))
    with monkeypatch.context() as patch:
        patch.setattr(net["a"].store, "place", full)
        net.deliver()
    assert take(net) == [b"first", b"wanted"]
    assert info(net, "a", "order_queue$").message_count == 0
    assert [each.kind for each in net["a"].manager.notices()] == [NoticeKind.NOT_KEPT]


def test_over_a_manager_that_forwards_it_is_express_once_both_know_the_queue(net):
    name = address("c", "news")
    introduced(net, name)
    settle(net)
    # The manager in between knows by now, and says so with the next order ack.
    send(net, *lasting("second"), name=name)
    net.deliver()
    net.block("b", "c")
    send(net, *express("third"), name=name)
    net.deliver()
    assert info(net, "b", name).express_count == 1
    net.crash("b")
    net.unblock("b", "c")
    settle(net)
    send(net, *express("fourth"), name=name)
    settle(net)
    assert take(net, "c") == [b"first", b"second", b"fourth"]


def test_the_next_number_is_that_of_the_next_message_whatever_is_reserved(net):
    introduced(net)
    net.block("a", "b")
    send(net, *express("a"))
    before = info(net, "a", NEWS).delivery.next_number
    send(net, *express("b"))
    assert info(net, "a", NEWS).delivery.next_number == before + 1


@pytest.mark.parametrize("seed", range(12))
def test_kills_at_any_time_lose_only_express_messages_and_stop_no_stream(net, seed):
    """Each message once at the most, in order; recoverable ones exactly once; in the end all."""
    rng = Random(seed)
    introduced(net)
    sent: list[bytes] = []
    got = take(net)
    assert got == [b"first"]
    for step in range(60):
        kind = rng.choice((express, lasting))
        body = f"{'e' if kind is express else 'r'}{step}"
        what = rng.random()
        if what < 0.6:
            send(net, *kind(body))
            sent.append(body.encode())
        elif what < 0.7:
            net.crash(rng.choice("ab"))
        elif what < 0.8:
            net.cut("a", "b")
            net.advance(6.0)
        elif what < 0.85:
            net._carry(rng.choice("ab"))
        elif what < 0.9:
            got += take(net)
        else:
            net.deliver()
    settle(net)
    send(net, *express("end"))
    settle(net)
    got += take(net)
    assert got[-1] == b"end"
    places = [sent.index(body) for body in got[1:-1]]
    assert places == sorted(set(places))
    assert [body for body in got if body.startswith(b"r")] == [
        body for body in sent if body.startswith(b"r")
    ]
