"""Copied data directories: two managers with one id are found out and refused, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.manager.lives import Lives
from dray.model.message import Message
from dray.wire import frames

from .conftest import Caller
from .net import Net, address

ORDERS = address("b", "orders")


@pytest.fixture
def net(tmp_path: Path) -> Net:
    """`x` runs on a copy of the data directory of `a`."""
    net = Net(tmp_path, "axb", ids={"x": "a"})
    net["b"].session().create("orders")
    return net


def bodies(net: Net) -> list[bytes]:
    receiver = net["b"].session()
    return receiver.receive(receiver.open("orders"), max_messages=1000)[1]


def state(caller: Caller) -> str:
    return caller.call(frames.DescribeQueue(ORDERS)).info.state


def send(net: Net, host: str, body: bytes) -> Caller:
    caller = net[host].session()
    caller.send(caller.open(ORDERS), Message(body=body))
    net.deliver()
    return caller


def test_two_managers_with_one_id_are_refused_until_one_is_stopped(net: Net) -> None:
    send(net, "a", b"first")
    copy = send(net, "x", b"of the copy")
    true = send(net, "a", b"second")
    net.advance(1.0)
    copy.send(copy.open(ORDERS), Message(body=b"of the copy too"))
    for _ in range(20):
        net.advance(6.0)
    info = true.call(frames.DescribeQueue(ORDERS)).info
    assert info.state == "need validation"
    assert info.message_count == 1
    assert "two managers run with the id" in info.delivery.history[-1].reason
    assert state(copy) == "need validation"
    assert any("is a copy of the other" in str(notice) for notice in net["b"].manager.notices())
    net.block("x", "b")
    for _ in range(20):
        net.advance(6.0)
    assert state(true) == "connected"
    assert bodies(net) == [b"first", b"second"]


def test_a_restart_is_no_copy(net: Net) -> None:
    for n in range(5):
        send(net, "a", b"%d" % n)
        net.crash("a")
    net.advance(10.0)
    assert bodies(net) == [b"%d" % n for n in range(5)]
    assert net["b"].manager.notices() == []


def test_a_life_that_was_replaced_and_calls_again_proves_two() -> None:
    lives = Lives()
    assert lives.called("one", 0.0)
    assert lives.called("two", 100.0)
    assert lives.called("two", 100.5)
    assert not lives.called("one", 101.0)
    assert not lives.called("two", 105.0)
    assert not lives.called("two", 160.0)
    assert lives.called("two", 166.0)
    assert lives.called("two", 400.0)


def test_either_of_the_two_may_be_the_one_that_stays() -> None:
    for stays in ("one", "two"):
        lives = Lives()
        lives.called("one", 0.0)
        lives.called("two", 1.0)
        assert not lives.called("one", 2.0)
        assert not lives.called(stays, 30.0)
        assert lives.called(stays, 70.0)
