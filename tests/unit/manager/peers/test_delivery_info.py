"""What can be seen of a delivery, and when a link is given up or dialled again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.manager.events import Dial, HangUp, LinkDown, LinkUp, Peer, Reachable
from dray.manager.notices import NoticeKind
from dray.model.message import Message
from dray.model.queue import DeliveryInfo
from dray.wire import queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import address
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair, pair  # noqa: F401 - a fixture


def delivery(caller: Caller) -> DeliveryInfo:
    info = caller.call(queue_frames.DescribeQueue(ADDRESS)).info.delivery
    assert info is not None
    return info


def until_deadline(driver: ManagerDriver) -> float:
    """In how many seconds the manager wants to look again; the time of day has few digits left."""
    deadline = driver.manager.deadline()
    assert deadline is not None
    return round(deadline - driver.now, 4)


def test_a_delivery_tells_where_it_stands(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    assert delivery(caller).link == "disconnected"
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    pair.deliver()
    info = delivery(caller)
    assert (info.next_hop, info.remote_queue, info.link) == ("127.0.0.1:7340", "orders", "welcomed")
    assert (info.last_ack, info.next_number, info.unacknowledged) == (2, 3, 0)
    assert info.last_ack_time == pair.source.now
    assert [change.state for change in info.history] == ["connected", "welcomed"]
    pair.cut()
    caller.send(queue, Message(body=b"c"))
    info = delivery(caller)
    assert (info.link, info.unacknowledged, info.next_number) == ("disconnected", 1, 2)
    assert info.next_attempt is not None
    assert (info.history[-1].state, info.history[-1].reason) == ("disconnected", "cut")
    pair.source.advance(5.0)
    pair.deliver()
    info = delivery(caller)
    assert (info.link, info.next_attempt, info.unacknowledged) == ("welcomed", None, 0)


def test_a_resend_is_counted_and_its_time_told(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    pair.deliver(upto=4)
    assert delivery(caller).next_resend == pair.source.now + 30.0
    pair.source.advance(30.0)
    assert delivery(caller).resends == 1


def test_since_when_a_destination_owes_an_answer_is_told_until_it_lets_the_stream_go_on(
    pair: Pair,  # noqa: F811
) -> None:
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"a"))
    assert delivery(caller).silent_since is None, "it is not connected"
    pair.deliver()
    assert delivery(caller).silent_since is None
    caller.send(queue, Message(body=b"b"))
    began = pair.source.now
    for _ in range(3):
        pair.source.advance(40.0)
        assert delivery(caller).silent_since == began, "to send again is no answer"
    pair.deliver()
    assert delivery(caller).silent_since is None
    caller.send(queue, Message(body=b"c"))
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=True))
    assert delivery(caller).silent_since is None
    pair.cut()
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=False))
    assert delivery(caller).silent_since is None


def test_a_failure_that_repeats_itself_is_one_change_that_is_counted(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    began = driver.now
    for _ in range(30):
        driver.turn(LinkDown(PEER, "refused"))
        driver.advance(6.0)
    (change,) = delivery(caller).history
    assert (change.reason, change.times, change.since) == ("refused", 30, began)
    for n in range(30):
        driver.turn(LinkDown(PEER, f"reason {n}"))
        driver.advance(6.0)
    assert len(delivery(caller).history) == 10


def test_only_an_outgoing_queue_has_a_delivery(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("orders")
    assert caller.call(queue_frames.DescribeQueue("orders")).info.delivery is None


def test_a_link_that_is_accepted_and_never_welcomed_is_dialled_again(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    driver.turn(LinkUp(PEER))
    assert until_deadline(driver) == pytest.approx(10.0)
    assert driver.advance(9.0) == []
    assert repr(driver.advance(1.0)) == repr([HangUp(PEER)])
    assert delivery(caller).history[-1].reason.startswith("it did not answer our Hello")
    assert repr(driver.advance(0.3)) == repr([Dial(PEER)])


def test_waits_are_scaled_by_the_jitter_that_was_drawn(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    driver.turn(LinkDown(PEER, "refused", 0.5))
    assert until_deadline(driver) == pytest.approx(0.1)


def test_a_tick_costs_nothing_for_queues_that_want_nothing(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path / "data")
    caller = driver.session()
    for n in range(50):
        caller.open(f"dray://127.0.0.1:7340/queue{n}")
    looked: list[int] = []
    for queue in look_into(driver.manager).state.queues.outgoing():
        queue.stream = _Watched(queue.stream, looked)
    for _ in range(10):
        driver.advance(1.0)
        driver.manager.deadline()
    assert looked == []


class _Watched:
    """A stream that notes each look at what it wants."""

    def __init__(self, stream: object, looked: list[int]) -> None:
        self._stream, self._looked = stream, looked

    def __getattr__(self, name: str) -> object:
        self._looked.append(1)
        return getattr(self._stream, name)


def test_a_start_tells_of_a_queue_that_keeps_to_a_route_that_the_options_do_not_name_any_more(
    tmp_path: Path,
) -> None:
    goal, over = Peer("c", 7340), Peer("b", 7340)
    name = address("c", "orders")
    driver = ManagerDriver(tmp_path, routes={goal: over})
    caller = driver.session()
    caller.send(caller.open(name), Message(body=b"x"))
    driver.crash()
    driver.turn(Reachable(frozenset()))
    told = driver.session().call(queue_frames.DescribeQueue(name)).info.delivery
    assert (told.next_hop, told.routed_now) == ("b:7340", "")
    assert not driver.manager.notices()
    driver.options["routes"] = {}
    driver.crash()
    driver.turn(Reachable(frozenset()))
    told = driver.session().call(queue_frames.DescribeQueue(name)).info.delivery
    assert (told.next_hop, told.routed_now) == ("b:7340", "c:7340")
    (notice,) = driver.manager.notices()
    assert (notice.kind, notice.subject) == (NoticeKind.AT_START, name)
    assert f"`dray queue delete {name}`" in notice.sentence


def test_a_route_over_the_manager_itself_leads_straight_to_the_goal(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path, routes={Peer("c", 7340): Peer("b", 7340)})
    name = address("c", "orders")
    for _ in range(2):
        driver.turn(Reachable(frozenset({Peer("b", 7340)})))
        caller = driver.session()
        caller.send(caller.open(name), Message(body=b"x"))
        told = caller.call(queue_frames.DescribeQueue(name)).info.delivery
        assert (told.next_hop, told.remote_queue, told.routed_now) == ("c:7340", "orders", "")
        assert not driver.manager.notices()
        driver.crash()
