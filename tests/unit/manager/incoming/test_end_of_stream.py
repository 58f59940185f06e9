"""Outgoing queues that are deleted in the middle of what they carry: both sides come to an end."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from crc32c import crc32c

from dray import errors
from dray.delivery.incoming import StreamKey
from dray.manager.events import (
    CloseSession,
    Dial,
    LinkDown,
    LinkFrame,
    LinkSend,
    LinkUp,
    SessionClosed,
)
from dray.manager.requests import admin
from dray.manager.state import stream_ends
from dray.manager.state.stream_ends import ENDING
from dray.model.limits import END_AGE_S_MAX
from dray.model.message import Message
from dray.testing.keyed_manager import KeyedManager, id_named
from dray.wire import frames, large_frames, message_frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import encode_record
from dray.wire.stream import Frame
from tests import steps
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.conftest import Source as Calling
from tests.unit.manager.incoming.test_cut_transactions import (
    carry_first_data,
    narrow,
    send_whole,
    wait_for_whole,
    whole,
)
from tests.unit.manager.net import Net, address, peer
from tests.unit.manager.peers.test_repairs import answers_to
from tests.unit.manager.requests.test_backup import begin, draw, restored
from tests.unit.manager.requests.test_large_messages import send_large, take_large

ORDERS = address("c", "orders")
DEAD = {"use_dead_letter_queue": True}
DAY_S = 86400.0


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ac")
    net["c"].session().create("orders")
    narrow(net, "a")
    return net


def deliver_two_of_three(net: Net, source: str = "a", **properties: object) -> None:
    """Of a transaction of three the first two arrive; then the line is cut."""
    caller = net[source].session()
    bodies = (b"1", b"2", b"3")
    messages = [Message(body=each, **properties) for each in bodies]
    send_whole(caller, caller.open(ORDERS), *messages)
    assert carry_first_data(net) == 2


def is_open(net: Net, host: str = "c") -> bool:
    return look_into(net[host].manager).state.arrival_routes.any_going


def ends_kept(net: Net, host: str = "a") -> int:
    return len(look_into(net[host].manager).state.stream_ends)


def delete(net: Net, host: str = "a", name: str = ORDERS) -> None:
    net[host].session().call(queue_frames.DeleteQueue(name))


def come_back(net: Net) -> None:
    net.unblock("a", "c")
    net.advance(31.0)


@pytest.mark.parametrize(
    ("crashed", "checkpoint"),
    [("", False), ("a", False), ("a", True), ("c", False), ("ac", False)],
)
def test_a_transaction_cut_short_by_a_deleted_outgoing_queue_ends_when_the_line_is_back(
    net: Net, crashed: str, checkpoint: bool
) -> None:
    deliver_two_of_three(net)
    net.block("a", "c")
    delete(net)
    if checkpoint:
        net["a"].store.checkpoint(net["a"].manager.snapshot())
    for host in crashed:
        net.crash(host)
    net["a"].advance(100.0)
    assert is_open(net)
    with pytest.raises(errors.ReceiveTimeout):
        whole(net["c"].session(), net["c"].session().open("orders"))
    come_back(net)
    receiver = net["c"].session()
    assert whole(receiver, receiver.open("orders")) == ([b"1", b"2"], [3])
    assert not is_open(net)
    assert ends_kept(net) == 0
    for host in "ac":
        net.crash(host)
    assert not is_open(net)
    assert ends_kept(net) == 0


def test_a_transaction_cut_short_while_the_line_stands_ends_at_once(net: Net) -> None:
    receiver = net["c"].session()
    orders = receiver.open("orders")
    wait_for_whole(receiver, orders)
    deliver_two_of_three(net)
    assert len(net["c"].session().receive(orders, peek=True)[1]) == 2
    delete(net)
    net.deliver()
    with pytest.raises(errors.ReceiveTimeout):
        net["c"].session().receive(orders, peek=True)
    assert ends_kept(net) == 0


def test_the_end_is_said_until_it_is_answered(net: Net) -> None:
    """The connection is lost between the question and the answer, again and again."""
    deliver_two_of_three(net)
    net.block("a", "c")
    delete(net)
    for _ in range(3):
        net.unblock("a", "c")
        net["a"].advance(31.0)
        for _ in range(20):
            net._carry("a")
            if isinstance(net.said[-1][2], peer_frames.EndStream):
                break
            net._carry("c")
        assert isinstance(net.said[-1][2], peer_frames.EndStream)
        net["c"].effects.clear()
        net.block("a", "c")
        assert ends_kept(net) == 1
    come_back(net)
    assert ends_kept(net) == 0
    assert not is_open(net)


@pytest.mark.parametrize("crash", [False, True])
def test_a_large_message_cut_short_by_a_deleted_outgoing_queue_is_a_hole(
    net: Net, crash: bool
) -> None:
    receiver = net["c"].session()
    large = receiver.create("large")
    caller = net["a"].session()
    transaction = caller.number_for()
    send_large(caller, caller.open(address("c", "large")), 2, transaction)
    caller.commit(transaction, 3)
    assert carry_first_data(net) == 2
    with pytest.raises(errors.ReceiveTimeout):
        take_large(receiver, large, receiver.number_for())
    net.block("a", "c")
    delete(net, name=address("c", "large"))
    come_back(net)
    if crash:
        net.crash("c")
        receiver = net["c"].session()
    with pytest.raises(errors.LargeMessageHole) as hole:
        take_large(receiver, large, receiver.number_for())
    assert hole.value.missing == ["trailer"]


def test_who_waits_for_a_repair_is_told_that_none_can_come(net: Net) -> None:
    receiver = net["c"].session()
    large, statusq = receiver.create("large"), receiver.create("statusq")
    receiver.call(queue_frames.SetQuota("large", 250, None))
    caller = net["a"].session()
    transaction = caller.number_for()
    send_large(caller, caller.open(address("c", "large")), 4, transaction, **DEAD)
    caller.commit(transaction, 3)
    net.deliver()
    net.block("a", "c")
    head = large_frames.LargeReceive(
        large, receiver.number_for(), 100_000.0, status_queue=statusq, repair=True
    )
    request = receiver.ask(head)
    assert receiver.answers(request) == [], "its source may have copies"
    delete(net, name=address("c", "large"))
    net.unblock("a", "c")
    net["a"].advance(31.0)
    (answer,) = answers_to(net, receiver, request)
    assert isinstance(answer, frames.Failed)
    assert "deleted the outgoing queue" in answer.sentence


def test_who_forwards_tells_behind_it_that_a_transaction_has_ended(tmp_path: Path) -> None:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    orders = net["c"].session().create("orders")
    narrow(net, "a")
    deliver_two_of_three(net)
    net.block("a", "b")
    net.advance(31.0)
    with pytest.raises(errors.ReceiveTimeout):
        whole(net["c"].session(), orders)
    delete(net)
    net.unblock("a", "b")
    net.advance(31.0)
    assert whole(net["c"].session(), orders) == ([b"1", b"2"], [3])
    assert not is_open(net, "b")


def test_who_forwards_remembers_the_end_of_a_transaction_while_its_line_is_cut(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    net["c"].session().create("orders")
    narrow(net, "a")
    deliver_two_of_three(net)
    net.block("a", "b")
    net.advance(31.0)
    net.block("b", "c")
    delete(net)
    net.unblock("a", "b")
    net.advance(31.0)
    assert not is_open(net, "b")
    for _ in range(2):
        (queue,) = (
            each for each in look_into(net["b"].manager).state.queues if each.name == ORDERS
        )
        assert len(queue.truncated_transactions) == 1
        net.crash("b")


def test_who_forwards_and_deletes_its_queue_ends_what_went_on_behind_it(tmp_path: Path) -> None:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    orders = net["c"].session().create("orders")
    narrow(net, "b")
    net.block("b", "c")
    caller = net["a"].session()
    send_whole(caller, caller.open(ORDERS), *(Message(body=each) for each in (b"1", b"2", b"3")))
    net.deliver()
    net.said.clear()
    net.unblock("b", "c")
    net["b"].advance(31.0)
    assert carry_first_data(net) == 2
    net.block("b", "c")
    delete(net, "b")
    assert is_open(net)
    net.unblock("b", "c")
    net.advance(31.0)
    assert whole(net["c"].session(), orders) == ([b"1", b"2"], [3])
    assert ends_kept(net, "b") == 0


def test_nothing_is_kept_to_be_told_to_who_does_not_hear_it_any_more(net: Net) -> None:
    deliver_two_of_three(net, **DEAD)
    net.block("a", "c")
    delete(net)
    come_back(net)
    receiver = net["c"].session()
    assert receiver.receive(receiver.open("orders"))[1] == [b"1", b"2"]
    outbox = look_into(net["c"].manager).state.outbox
    assert [each.waiting for each in outbox.state()] == [[]]
    net.crash("c")
    assert [each.ended for each in look_into(net["c"].manager).state.outbox.state()] == [True]


def test_a_queue_that_is_made_again_is_another_stream(net: Net) -> None:
    deliver_two_of_three(net)
    net.block("a", "c")
    delete(net)
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"new"))
    come_back(net)
    receiver = net["c"].session()
    assert receiver.receive(receiver.open("orders"))[1] == [b"1", b"2", b"new"]


def test_nobody_is_told_of_a_queue_that_never_carried_anything(net: Net) -> None:
    net["a"].session().open(ORDERS)
    delete(net)
    assert ends_kept(net) == 0
    assert not [each for each in net["a"].effects if isinstance(each, Dial)]


def test_a_peer_may_only_speak_of_its_own_streams(net: Net) -> None:
    deliver_two_of_three(net)
    net.block("a", "c")
    number = net["a"].session().open(ORDERS)
    delete(net)
    said = Frame(peer_frames.EndStreamAcked(number), 0, memoryview(b""))
    net["a"].turn(LinkFrame(peer("somebody"), said))
    assert ends_kept(net) == 1


# ------------------------------------------------------------------- what comes late, or again


class Source:
    """A source manager on connections of its own making; its stream is number 7."""

    def __init__(self, driver: ManagerDriver) -> None:
        self.driver = driver
        self.lines = 100
        self.calls: dict[int, Calling] = {}

    def line(self) -> int:
        self.lines += 1
        self.calls[self.lines] = self.driver.source(self.lines, "b")
        return self.lines

    def say(self, line: int, head: Head, body: bytes = b"") -> list[Head]:
        return self.calls[line].say(head, body)

    def data(self, first: int, *bodies: bytes) -> tuple[peer_frames.Data, bytes]:
        """Messages of transaction 5, from a number on, none of them its last."""
        envelopes, records = [], b""
        for number, body in enumerate(bodies, first):
            record = b"".join(
                encode_record(Message(body=body), bytes.fromhex(id_named("b")), number)
            )
            envelope = message_frames.Envelope(
                0, len(record), crc32c(record), 5, 0, 0, number == 1, ordinal=number, number=number
            )
            envelopes.append(envelope)
            records += record
        return peer_frames.Data(7, 1 << 32, 0, envelopes), records


def position(driver: ManagerDriver) -> tuple[int, int]:
    return tuple(look_into(driver.manager).state.incoming.position(StreamKey(id_named("b"), 7)))


def test_what_comes_late_on_a_line_that_was_given_up_begins_nothing_anew(
    driver: ManagerDriver,
) -> None:
    driver.session().create("orders")
    source = Source(driver)
    old = source.line()
    source.say(old, peer_frames.OpenStream(7, "orders"))
    source.say(old, *source.data(1, b"1"))
    new = source.line()
    assert source.say(new, peer_frames.EndStream(7)) == [peer_frames.EndStreamAcked(7)]
    (refused,) = source.say(old, *source.data(1, b"1", b"2"))
    assert isinstance(refused, peer_frames.StreamRefused)
    assert source.say(old, peer_frames.OpenStream(7, "orders")) == []
    source.say(old, *source.data(1, b"1", b"2"))
    assert position(driver) == (1 << 32, 1)
    assert not look_into(driver.manager).state.arrival_routes.any_going


def led_to_a_deleted_queue(driver: ManagerDriver) -> tuple[Source, int]:
    """A source and its line, after the first message of a stream whose queue has gone since."""
    caller = driver.session()
    caller.create("orders")
    source = Source(driver)
    line = source.line()
    source.say(line, peer_frames.OpenStream(7, "orders", 3))
    source.say(line, *source.data(1, b"1"))
    caller.call(queue_frames.DeleteQueue("orders"))
    return source, line


def test_each_frame_of_a_stream_whose_queue_was_deleted_is_refused_with_what_was_accepted(
    driver: ManagerDriver,
) -> None:
    source, line = led_to_a_deleted_queue(driver)
    for _ in range(2):
        (refused,) = source.say(line, *source.data(2, b"2"))
        assert isinstance(refused, peer_frames.StreamRefused)
        assert (refused.error, refused.question) == ("queue-not-found", 3)
        assert (refused.sequence_id, refused.upto) == (1 << 32, 1)


def test_what_was_refused_for_a_deleted_queue_does_not_enter_the_next_of_its_name(
    driver: ManagerDriver,
) -> None:
    """Its source gives it up as soon as it hears of the refusal."""
    source, line = led_to_a_deleted_queue(driver)
    source.say(line, *source.data(2, b"2"))
    caller = driver.session()
    orders = caller.create("orders")
    (refused,) = source.say(line, *source.data(2, b"2"))
    assert isinstance(refused, peer_frames.StreamRefused)
    assert (refused.error, refused.question) == ("queue-not-found", 3)
    source.say(line, peer_frames.OpenStream(7, "orders", 4))
    (taken,) = source.say(line, *source.data(3, b"3"))
    assert isinstance(taken, peer_frames.StreamState)
    assert caller.receive(orders)[1] == [b"3"]


def test_the_end_of_a_stream_that_never_came_bars_what_comes_of_it_late(
    driver: ManagerDriver,
) -> None:
    driver.session().create("orders")
    source = Source(driver)
    old, new = source.line(), source.line()
    assert source.say(new, peer_frames.EndStream(7)) == [peer_frames.EndStreamAcked(7)]
    source.say(old, peer_frames.OpenStream(7, "orders"))
    source.say(old, *source.data(1, b"1"))
    assert position(driver) == (0, 0)


def test_an_end_that_is_said_twice_changes_nothing_and_costs_no_fact(driver: ManagerDriver) -> None:
    driver.session().create("orders")
    source = Source(driver)
    line = source.line()
    source.say(line, peer_frames.OpenStream(7, "orders"))
    source.say(line, *source.data(1, b"1"))
    source.say(line, peer_frames.EndStream(7))
    before = b"".join(driver.manager.snapshot().state)
    waiting = driver.store.waiting_bytes
    assert source.say(line, peer_frames.EndStream(7)) == [peer_frames.EndStreamAcked(7)]
    assert driver.store.waiting_bytes == waiting
    assert b"".join(driver.manager.snapshot().state) == before


def test_ends_on_a_line_that_was_given_up_are_bounded(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.incoming.streams.ENDS_REMEMBERED_MAX", 3)
    source = Source(driver)
    old, new = source.line(), source.line()
    for stream in range(4):
        source.say(new, peer_frames.EndStream(stream))
    assert [getattr(each, "session", 0) for each in driver.effects][-2:] == [old, new]


def test_a_line_with_as_many_ends_as_are_remembered_stays(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.incoming.streams.ENDS_REMEMBERED_MAX", 3)
    source = Source(driver)
    old, new = source.line(), source.line()
    source.say(new, peer_frames.EndStream(0))
    driver.effects.clear()
    for stream in (1, 2):
        source.say(new, peer_frames.EndStream(stream))
    assert not any(isinstance(each, CloseSession) for each in driver.effects)
    source.say(new, peer_frames.EndStream(3))
    assert [each.session for each in driver.effects if isinstance(each, CloseSession)] == [old]


def test_a_source_that_is_restored_with_the_queue_goes_on_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, "ac")
    orders = net["c"].session().create("orders")
    net.block("a", "c")
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), *(Message(body=each, **DEAD) for each in (b"1", b"2")))
    archive = draw(caller, begin(caller))
    come_back(net)
    delete(net)
    net.deliver()
    receiver = net["c"].session()
    assert receiver.receive(orders, max_messages=1)[1] == [b"1"]
    net.crash("a")
    net["a"].disk.close()
    net.drivers["a"] = restored(net["a"], archive, now=net["c"].now + 1000.0)
    net.advance(31.0)
    caller = net["a"].session()
    caller.send(caller.open(ORDERS), Message(body=b"3"))
    net.deliver()
    assert receiver.receive(orders)[1] == [b"2", b"3"]
    outbox = look_into(net["c"].manager).state.outbox
    assert not any(each.ended for each in outbox.state())


# -------------------------------------------------------------------------------------- bounds


def test_a_destination_that_cannot_be_reached_is_given_up_in_the_end(net: Net) -> None:
    deliver_two_of_three(net)
    net.block("a", "c")
    delete(net)
    net["a"].advance(END_AGE_S_MAX - DAY_S)
    assert ends_kept(net) == 1
    net["a"].manager.notices()
    net["a"].advance(DAY_S + 60.0)
    assert ends_kept(net) == 0
    (notice,) = net["a"].manager.notices()
    assert "could not be told" in str(notice)
    net["a"].effects.clear()
    net["a"].advance(DAY_S)
    assert not [each for each in net["a"].effects if isinstance(each, Dial)]
    net.crash("a")
    assert ends_kept(net) == 0


def test_of_too_many_ends_the_oldest_is_forgotten_and_the_operator_is_told(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (admin, stream_ends):
        monkeypatch.setattr(module, "ENDS_REMEMBERED_MAX", 2)
    net.block("a", "c")
    caller = net["a"].session()
    numbers = []
    for name in ("one", "two", "three"):
        numbers.append(caller.open(address("c", name)))
        caller.send(numbers[-1], Message())
        net["a"].manager.notices()
        delete(net, name=address("c", name))
    kept = [each.stream for each in look_into(net["a"].manager).state.stream_ends]
    assert kept == numbers[1:]
    assert any("the oldest of these" in str(each) for each in net["a"].manager.notices())
    net.crash("a")
    assert [each.stream for each in look_into(net["a"].manager).state.stream_ends] == numbers[1:]


# --------------------------------------------------------------------------------- the table


class Walk:
    """One outgoing queue after another, at a driver; the peer is made up."""

    def __init__(self, driver: ManagerDriver) -> None:
        self.driver = driver
        self.caller = driver.session()
        self.connected = False
        self.stream = 0
        self.last_event = ""

    def state(self) -> str:
        if look_into(self.driver.manager).state.stream_ends.get(self.stream) is None:
            return "none"
        return "told" if self.told else "kept"

    @property
    def told(self) -> bool:
        ends = [
            each.head.stream
            for each in self.driver.effects
            if isinstance(each, LinkSend) and isinstance(each.head, peer_frames.EndStream)
        ]
        return self.connected and self.stream in ends

    def happen(self, event: str) -> None:
        driver, there = self.driver, peer("c")
        match event:
            case "DeleteQueue, the peer connected" | "DeleteQueue, the peer not connected":
                self.caller.send(self.stream, Message())
                self.caller.call(queue_frames.DeleteQueue(ORDERS))
            case "DeleteQueue, though the queue carried nothing":
                self.caller.call(queue_frames.DeleteQueue(ORDERS))
            case "Welcome":
                driver.effects.clear()
                welcome = KeyedManager("c").welcome(driver.manager.hello(there))
                driver.turn(LinkUp(there))
                self.connected = True
                driver.turn(LinkFrame(there, Frame(welcome, 0, memoryview(b""))))
            case "connection lost":
                driver.turn(LinkDown(there, "cut", 1.0))
                self.connected = False
            case "EndStreamAcked":
                said = Frame(peer_frames.EndStreamAcked(self.stream), 0, memoryview(b""))
                driver.turn(LinkFrame(there, said))
            case "Tick, after 30 days":
                driver.advance(END_AGE_S_MAX + DAY_S)


def test_every_step_of_an_end_is_in_the_table_and_all_of_the_table_happens(
    driver: ManagerDriver,
) -> None:
    walk, rng, seen = Walk(driver), random.Random(4), set[steps.Ran]()
    apart, together, empty = (row.event for row in ENDING[:3])
    for _ in range(120):
        before = walk.state()
        if before == "none" and rng.random() < 0.5:
            walk.happen("connection lost" if walk.connected else "Welcome")
        choices = {
            "none": [together if walk.connected else apart, empty],
            "kept": ["Welcome", "Tick, after 30 days"],
            "told": ["connection lost", "EndStreamAcked"],
        }[before]
        event = rng.choice(choices)
        if before == "none":
            walk.stream = walk.caller.open(ORDERS)
        ran = steps.ran_while(ENDING, partial(walk.happen, event))
        seen.add((before, event, ran, walk.state()))
        if event.startswith("Tick"):
            walk.caller = driver.session()
    table = steps.as_seen(ENDING)
    assert seen - table == set()
    assert table - seen == set()
    assert steps.surviving(ENDING, seen) == []


def test_a_session_that_has_closed_bars_nothing(driver: ManagerDriver) -> None:
    """Who has an older connection no more needs no memory of it."""
    source = Source(driver)
    old, new = source.line(), source.line()
    driver.turn(SessionClosed(old))
    source.say(new, peer_frames.EndStream(7))
    assert all(not each.ended for each in look_into(driver.manager).sessions.values())
