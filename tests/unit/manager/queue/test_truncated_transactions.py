"""Behind a manager that forwards for several: a transaction truncated in a gap is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from crc32c import crc32c

from dray import errors
from dray.manager.events import CloseSession, LinkDown, LinkFrame, LinkSend, LinkUp
from dray.manager.facts import Accepted
from dray.manager.queue import truncated_transactions
from dray.manager.queue.arrival_routes import GOING, ArrivalRoute, ArrivalRoutes
from dray.manager.queue.truncated_transactions import TRUNCATED, TruncatedTransactions
from dray.model.classes import Part
from dray.model.message import Message
from dray.testing.keyed_manager import KeyedManager, id_named
from dray.wire import message_frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import PartMark, encode_record
from dray.wire.stream import Frame
from tests import steps
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.incoming.test_cut_transactions import (
    LATE,
    missing_in,
    narrow,
    send_whole,
    wait_for_whole,
    whole,
)
from tests.unit.manager.incoming.test_end_of_stream import Source, position
from tests.unit.manager.net import Net, address, peer
from tests.unit.manager.requests.test_large_messages import send_large, take_large

ORDERS = address("c", "orders")


@pytest.fixture
def net(tmp_path: Path) -> Net:
    """`a` and `d` send to `c` over `b`, whose window is of two messages."""
    net = Net(tmp_path, "abcd", {"a": {"c": "b"}, "d": {"c": "b"}})
    net["c"].session().create("orders")
    narrow(net, "b")
    return net


def send(net: Net, host: str, *messages: Message) -> None:
    caller = net[host].session()
    send_whole(caller, caller.open(ORDERS), *messages)


def carry_data(net: Net, source: str, goal: str, count: int = 2) -> None:
    """Carry what is said until a frame of so many messages has come to its goal; cut the line."""
    net.said.clear()
    for _ in range(30):
        for host in net.drivers:
            net._carry(host)
        found = [
            len(head.envelopes)
            for who, whom, head in net.said
            if (who, whom) == (source, goal) and isinstance(head, peer_frames.Data)
        ]
        if found:
            assert found == [count]
            net.block(source, goal)
            return
    raise AssertionError("nothing was sent")


def expire_before_another(net: Net) -> None:
    """What is late at the hop expires there, and the next message is another origin's."""
    net["b"].advance(61.0)
    send(net, "d", Message(body=b"x"))
    net.deliver()


def two_of_three_arrive(net: Net) -> Caller:
    """Of a transaction of `a` two messages arrive at `c`; the third is still at `b`, and dies."""
    net.block("b", "c")
    send(net, "a", Message(body=b"1"), Message(body=b"2"), Message(body=b"3", **LATE))
    net.deliver()
    net.unblock("b", "c")
    net["b"].advance(31.0)
    carry_data(net, "b", "c")
    return net["c"].session()


def come_back(net: Net) -> None:
    net.unblock("b", "c")
    net.advance(31.0)


def told(net: Net, source: str = "b") -> list[peer_frames.TruncatedTransaction]:
    """What was said in frames of ends behind which messages of others come."""
    return [
        each
        for who, _, head in net.said
        if who == source and isinstance(head, peer_frames.Data)
        for each in head.truncated
    ]


def kept(net: Net, host: str = "b") -> int:
    return sum(
        len(queue.truncated_transactions) for queue in look_into(net[host].manager).state.queues
    )


def is_open(net: Net, host: str = "c") -> bool:
    return look_into(net[host].manager).state.arrival_routes.any_going


@pytest.mark.parametrize("crash", ["", "b", "c", "b, with a checkpoint"])
@pytest.mark.parametrize("reason", ["it expired", "it was purged"])
def test_who_waits_behind_a_hop_hears_of_the_end_though_others_come_behind_it(
    net: Net, reason: str, crash: str
) -> None:
    receiver = two_of_three_arrive(net)
    orders = receiver.open("orders")
    if reason == "it expired":
        net["b"].advance(61.0)
    else:
        net["b"].session().call(queue_frames.PurgeQueue(net["b"].session().open(ORDERS)))
    send(net, "d", Message(body=b"x"), Message(body=b"y"))
    net.deliver()
    assert is_open(net)
    if "checkpoint" in crash:
        net["b"].store.checkpoint(net["b"].manager.snapshot())
    if crash:
        net.crash(crash[0])
    receiver = net["c"].session()
    orders = receiver.open("orders")
    come_back(net)
    assert whole(receiver, orders) == ([b"1", b"2"], [3])
    assert told(net)[0].origin == id_named("a")
    assert whole(receiver, orders) == ([b"x", b"y"], [])
    assert (is_open(net), is_open(net, "b"), kept(net)) == (False, False, 0)


def test_an_end_is_told_with_the_first_message_behind_it_and_not_again_with_later_ones(
    net: Net,
) -> None:
    two_of_three_arrive(net)
    expire_before_another(net)
    net.unblock("b", "c")
    net["b"].advance(31.0)
    net.said.clear()
    while not told(net):
        assert net.step()
    send(net, "d", Message(body=b"y"))
    frames = [head for _, _, head in net.said if isinstance(head, peer_frames.Data)]
    while net._carry("d") + net._carry("b"):
        pass
    later = [head for _, _, head in net.said if isinstance(head, peer_frames.Data)][len(frames) :]
    assert len(later) == 2, "from its origin, and from the hop"
    assert len(told(net)) == 1


def test_a_request_that_waits_is_answered_by_it(net: Net) -> None:
    receiver = two_of_three_arrive(net)
    orders = receiver.open("orders")
    wait_for_whole(receiver, orders)
    expire_before_another(net)
    looking = net["c"].session()
    assert looking.receive(orders, peek=True)[1] == [b"1", b"2"]
    come_back(net)
    assert looking.receive(orders, peek=True)[1] == [b"x"]


@pytest.mark.parametrize("host", ["b", "c"])
@pytest.mark.parametrize("frames_carried", [1, 3, 4, 5, 7])
def test_a_crash_at_any_frame_takes_no_end_and_makes_none(
    net: Net, host: str, frames_carried: int
) -> None:
    two_of_three_arrive(net)
    net["b"].advance(61.0)
    send(net, "d", Message(body=b"x"), Message(body=b"y"))
    net.deliver()
    send(net, "a", Message(body=b"4"), Message(body=b"5"))
    net.deliver()
    net.unblock("b", "c")
    net["b"].advance(31.0)
    for _ in range(frames_carried):
        for each in "bc":
            effects, net[each].effects = net[each].effects, []
            net[each].effects = effects[:1]
            net._carry(each)
            net[each].effects += effects[1:]
    net.crash(host)
    net.advance(31.0)
    receiver = net["c"].session()
    orders = receiver.open("orders")
    found = [whole(receiver, orders) for _ in range(3)]
    assert found == [([b"1", b"2"], [3]), ([b"x", b"y"], []), ([b"4", b"5"], [])]
    assert (is_open(net), kept(net)) == (False, 0)


def test_of_a_transaction_that_goes_on_at_its_source_no_end_is_told(net: Net) -> None:
    """What left in the middle of a transaction is a gap, and no end."""
    narrow(net, "a")
    net.block("b", "c")
    net.block("a", "b")
    middle = Message(body=b"2", **LATE)
    send(net, "a", Message(body=b"1"), middle, Message(body=b"3"), Message(body=b"4"))
    net.unblock("a", "b")
    net["a"].advance(31.0)
    carry_data(net, "a", "b")
    expire_before_another(net)
    come_back(net)
    assert is_open(net)
    assert told(net) == []
    receiver = net["c"].session()
    orders = receiver.open("orders")
    assert whole(receiver, orders) == ([b"x"], [])
    net.unblock("a", "b")
    net.advance(31.0)
    assert whole(receiver, orders) == ([b"1", b"3", b"4"], [2])


@pytest.mark.parametrize("how", ["passed over", "its queue deleted", "one alone behind it"])
def test_what_ended_at_its_source_already_is_told_on_with_what_others_send(
    net: Net, how: str
) -> None:
    narrow(net, "a")
    net.block("a", "b")
    send(net, "a", Message(body=b"1"), Message(body=b"2"), Message(body=b"3", **LATE))
    if how == "one alone behind it":
        send(net, "a", Message(body=b"alone", **LATE))
    net.unblock("a", "b")
    net["a"].advance(31.0)
    carry_data(net, "a", "b")
    net.deliver()
    assert is_open(net)
    net.block("b", "c")
    if how == "its queue deleted":
        net["a"].session().call(queue_frames.DeleteQueue(ORDERS))
        net.unblock("a", "b")
        net.advance(31.0)
    else:
        if how == "passed over":
            net["a"].advance(61.0)
        else:
            # The last may not go any further, which `b` says when it has come.
            net["b"].now += 1.0
        net.unblock("a", "b")
        net["a"].advance(31.0)
        net.deliver()
    net["b"].advance(62.0)
    send(net, "d", Message(body=b"x"))
    net.deliver()
    come_back(net)
    receiver = net["c"].session()
    orders = receiver.open("orders")
    assert whole(receiver, orders) == ([b"1", b"2"], [3])
    assert whole(receiver, orders) == ([b"x"], [])
    assert not is_open(net)
    assert kept(net) == 0


def test_what_the_hop_itself_sent_ends_short_like_what_it_forwards(net: Net) -> None:
    net.block("b", "c")
    send(net, "b", Message(body=b"1"), Message(body=b"2"), Message(body=b"3", **LATE))
    net.unblock("b", "c")
    net["b"].advance(31.0)
    carry_data(net, "b", "c")
    expire_before_another(net)
    come_back(net)
    receiver = net["c"].session()
    assert whole(receiver, receiver.open("orders")) == ([b"1", b"2"], [3])
    assert [each.origin for each in told(net)] == [""]


def test_an_end_is_told_on_by_every_hop_behind(tmp_path: Path) -> None:
    """Over b and e to c; at e messages of another origin follow as well."""
    routes = {"a": {"c": "b"}, "b": {"c": "e"}, "d": {"c": "b"}, "f": {"c": "e"}}
    net = Net(tmp_path, "abcdef", routes)
    net["c"].session().create("orders")
    narrow(net, "b")
    net.block("b", "e")
    send(net, "a", Message(body=b"1"), Message(body=b"2"), Message(body=b"3", **LATE))
    net.deliver()
    net.unblock("b", "e")
    net["b"].advance(31.0)
    carry_data(net, "b", "e")
    net.deliver()
    net.block("e", "c")
    expire_before_another(net)
    net.unblock("b", "e")
    net["b"].advance(31.0)
    net.deliver()
    send(net, "f", Message(body=b"y"))
    net.deliver()
    net.unblock("e", "c")
    net.advance(31.0)
    receiver = net["c"].session()
    assert whole(receiver, receiver.open("orders")) == ([b"1", b"2"], [3])
    assert not is_open(net, "e")
    assert not is_open(net)


def test_a_large_message_whose_trailer_died_at_a_hop_is_a_hole_though_others_come(
    net: Net,
) -> None:
    large = net["c"].session().create("large")
    caller, transaction = net["a"].session(), 0
    net.block("b", "c")
    queue, transaction = caller.open(address("c", "large")), caller.number_for()
    sequence = send_large(caller, queue, 1, transaction, trailer=False)
    end = PartMark(Part.TRAILER, sequence, 1)
    trailer = Message(app_specific=-9999, **LATE)
    caller.send(queue, trailer, transaction=transaction, marks=(end,), guarded=False)
    caller.commit(transaction, 3)
    net.deliver()
    net.unblock("b", "c")
    net["b"].advance(31.0)
    carry_data(net, "b", "c")
    net["b"].advance(61.0)
    other = net["d"].session()
    queue, transaction = other.open(address("c", "large")), other.number_for()
    following = send_large(other, queue, 1, transaction)
    other.commit(transaction, 3)
    net.deliver()
    come_back(net)
    receiver = net["c"].session()
    with pytest.raises(errors.LargeMessageHole) as hole:
        take_large(receiver, large, receiver.number_for())
    assert hole.value.missing == ["trailer"]
    assert take_large(receiver, large, receiver.number_for()).sequence == following


def test_of_more_origins_than_are_kept_the_first_is_told_by_its_next_message(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncated_transactions, "TRUNCATED_MAX", 1)
    two_of_three_arrive(net)
    send(net, "d", Message(body=b"x"), Message(body=b"y", **LATE))
    net.deliver()
    net["b"].advance(61.0)
    assert kept(net) == 1
    send(net, "a", Message(body=b"4"))
    net.deliver()
    come_back(net)
    receiver = net["c"].session()
    orders = receiver.open("orders")
    assert [whole(receiver, orders) for _ in range(3)] == [
        ([b"1", b"2"], [3]),
        ([b"x"], [2]),
        ([b"4"], []),
    ]


def test_of_one_way_the_last_end_is_kept_whatever_left_first() -> None:
    ends = TruncatedTransactions()
    ends.ended(1, 20)
    ends.ended(1, 9)
    ends.ended(2, 12)
    assert ends.between(0, 100) == [(12, 2), (20, 1)]
    assert ends.between(12, 19) == []
    ends.heard(12)
    again = TruncatedTransactions()
    again.restore(ends.state())
    assert (ends.state(), again.state()) == ([(1, 20)], [(1, 20)])


def test_a_fact_ends_what_came_by_the_ways_of_origins_that_send_no_more() -> None:
    ends, routes = TruncatedTransactions(), ArrivalRoutes()
    for origin in "ab":
        routes.add(ArrivalRoute("c" * 32, 7, origin * 32, 2))
    going = [("a" * 32, 0), ("b" * 32, 5), ("d" * 32, 0)]
    ends.ended_in(Accepted("c" * 32, 7, 1, 9, 2, 0, b"", going=going), routes, 20)
    assert ends.state() == [(1, 20)]


# ----------------------------------------------------------------- what a destination makes of it


class Forwarder(Source):
    """A source that forwards, on a line of its own making; its stream is number 7."""

    def __init__(self, driver: ManagerDriver, queue: str = "orders") -> None:
        super().__init__(driver)
        self.open = self.line()
        self.say(self.open, peer_frames.OpenStream(7, queue))
        self.previous = 0

    def send(
        self,
        number: int,
        origin: str,
        transaction: int,
        *,
        last: bool = False,
        first: bool = False,
        told: list[peer_frames.TruncatedTransaction] | None = None,
        length: int = 1,
    ) -> None:
        source = bytes.fromhex(origin * 32)
        record = b"".join(encode_record(Message(body=bytes(length)), source, number))
        envelope = message_frames.Envelope(
            0, len(record), crc32c(record), transaction, 0, 0, first | last << 1,
            ordinal=1, number=number,
        )  # fmt: skip
        data = peer_frames.Data(7, 1 << 32, self.previous, [envelope], told or [])
        self.say(self.open, data, record)
        self.previous = position(self.driver)[1]


def going(driver: ManagerDriver) -> set[tuple[str, int]]:
    routes = look_into(driver.manager).state.arrival_routes
    found = routes.going_by(id_named("b"), 7)
    return {(route.origin[0], transaction) for _, route, transaction in found}


@pytest.mark.parametrize("below", [2, 3])
def test_an_end_below_what_was_accepted_ends_nothing_that_began_since(
    driver: ManagerDriver, below: int
) -> None:
    driver.session().create("orders")
    source = Forwarder(driver)
    source.send(1, "a", 5, first=True)
    source.send(3, "a", 6, first=True)
    late = [peer_frames.TruncatedTransaction(below, "a" * 32)]
    source.send(4, "d", 8, told=late)
    assert going(driver) == {("a", 6), ("d", 8)}


def test_an_end_below_a_message_ends_what_came_before_it_and_not_what_it_begins(
    driver: ManagerDriver,
) -> None:
    driver.session().create("orders")
    source = Forwarder(driver)
    source.send(1, "a", 5, first=True)
    source.send(3, "d", 8, first=True, told=[peer_frames.TruncatedTransaction(3, "a" * 32)])
    assert going(driver) == {("d", 8)}
    source.send(4, "a", 6, first=True, told=[peer_frames.TruncatedTransaction(4, "a" * 32)])
    assert going(driver) == {("d", 8), ("a", 6)}


def test_a_message_that_may_not_enter_ends_what_went_on_before_it_all_the_same(
    driver: ManagerDriver,
) -> None:
    """The receiver that waits for a whole transaction is served, though nothing new is there."""
    caller = driver.session()
    queue = caller.create("orders", quota=400)
    source = Forwarder(driver)
    source.send(1, "a", 5, first=True)
    request = wait_for_whole(caller, queue)
    assert missing_in(caller, request) is None
    source.send(3, "a", 6, first=True, last=True, length=1000)
    assert missing_in(caller, request) is not None


def test_a_forwarder_keeps_the_end_of_what_was_cut_short_and_of_nothing_that_came_whole(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = look_into(driver.manager).state.queues.numbered(caller.open(ORDERS))
    source = Forwarder(driver, ORDERS)
    source.send(1, "a", 5, first=True)
    told = [peer_frames.TruncatedTransaction(2, "a" * 32)]
    source.send(3, "d", 8, first=True, last=True, told=told)
    assert [route for route, _ in queue.truncated_transactions.state()] == [1]


def test_an_end_behind_what_the_quota_let_in_waits_for_the_rest_of_its_frame(
    driver: ManagerDriver,
) -> None:
    """A frame may be admitted in part; what it says is true where it stands."""
    queue = driver.session().create("orders")
    driver.session().call(queue_frames.SetQuota("", 400, queue_frames.SetQuota.KEPT))
    source = Forwarder(driver)
    source.send(1, "a", 5, first=True)
    records, envelopes = b"", []
    for number, size in ((3, 1), (5, 2000)):
        record = b"".join(encode_record(Message(body=bytes(size)), b"\xdd" * 16, number))
        envelopes.append(
            message_frames.Envelope(
                0, len(record), crc32c(record), 8, 0, 0, 0, ordinal=1, number=number
            )
        )
        records += record
    told = [peer_frames.TruncatedTransaction(4, "a" * 32)]
    source.say(source.open, peer_frames.Data(7, 1 << 32, 1, envelopes, told), records)
    assert position(driver) == (1 << 32, 3)
    assert going(driver) == {("a", 5), ("d", 8)}
    driver.session().call(queue_frames.SetQuota("", 1 << 20, queue_frames.SetQuota.KEPT))
    source.say(source.open, peer_frames.Data(7, 1 << 32, 0, envelopes, told), records)
    assert position(driver) == (1 << 32, 5)
    assert going(driver) == {("d", 8)}
    caller = driver.session()
    assert len(caller.receive(queue, peek=True)[1]) == 3


def test_an_origin_that_is_no_managers_id_ends_the_connection_and_nothing_else(
    driver: ManagerDriver,
) -> None:
    driver.session().create("orders")
    source = Forwarder(driver)
    source.send(1, "a", 5, first=True)
    driver.effects.clear()
    source.send(3, "d", 8, told=[peer_frames.TruncatedTransaction(2, "nobody")])
    assert [each for each in driver.effects if isinstance(each, CloseSession)]
    assert (position(driver), going(driver)) == ((1 << 32, 1), {("a", 5)})


def test_an_end_of_an_origin_that_never_came_is_nothing(driver: ManagerDriver) -> None:
    driver.session().create("orders")
    source = Forwarder(driver)
    source.send(2, "d", 8, first=True, told=[peer_frames.TruncatedTransaction(1, "e" * 32)])
    assert going(driver) == {("d", 8)}
    before = look_into(driver.manager).state.arrival_routes.state()
    driver.crash()
    assert look_into(driver.manager).state.arrival_routes.state() == before


# --------------------------------------------------------------------------------- the tables


def go_on(source: Forwarder, event: str, *, number: int, following: int, transaction: int) -> None:
    """Let one event of the table happen."""
    first = "first" in event or "alone" in event
    match event.split(",", maxsplit=1)[0].split(maxsplit=1)[0]:
        case "a":
            last = "alone" in event or event.endswith(", its last")
            source.send(number, "a", following, last=last, first=first)
        case "TruncatedTransaction":
            at = number - (3 if "not beyond" in event else 1)
            source.send(
                number, "d", 1, last=True, told=[peer_frames.TruncatedTransaction(at, "a" * 32)]
            )
        case "Passed":
            names_it = event.endswith("which names it")
            named = [peer_frames.Going("a" * 32, transaction)] if names_it else []
            source.say(source.open, peer_frames.Passed(7, 1 << 32, 0, number, named))
            source.previous = number
        case "EndStream":
            source.say(source.open, peer_frames.EndStream(7))


def test_what_goes_on_by_a_way_follows_its_table(driver: ManagerDriver) -> None:
    driver.session().create("orders")
    source, rng, seen = Forwarder(driver), random.Random(3), set[steps.Ran]()
    number, transaction = 0, 1
    for _ in range(120):
        state = "going" if ("a", transaction) in going(driver) else "none"
        row = rng.choice([row for row in GOING if row.state == state])
        event = row.event
        number += 2
        following = transaction + ("another" in event or state == "none")

        act = partial(
            go_on, source, event, number=number, following=following, transaction=transaction
        )
        ran = steps.ran_while(GOING, act)
        if event == "EndStream":
            assert not going(driver)
            source.open = source.line()
            source.say(source.open, peer_frames.OpenStream(7, "orders"))
            source.previous = 0
        if event.startswith("a message"):
            transaction = following
        after = "going" if ("a", transaction) in going(driver) else "none"
        seen.add((state, event, ran, after))
    assert seen == steps.as_seen(GOING)
    assert steps.surviving(GOING, seen) == []


class Kept:
    """A manager whose peer is made up, and the ends that its queue for that peer keeps."""

    def __init__(self, driver: ManagerDriver) -> None:
        self.driver, self.caller = driver, driver.session()
        self.number = self.caller.open(ORDERS)
        self.queue = look_into(driver.manager).state.queues.numbered(self.number)

    def send(self, *bodies: bytes, late: bytes = b"") -> None:
        """A transaction; the last message, `late`, can expire."""
        messages = [Message(body=each) for each in bodies]
        messages += [Message(body=late, **LATE)] if late else []
        send_whole(self.caller, self.number, *messages)

    def connect(self, upto: int) -> None:
        """Make a connection; the peer has everything up to a position."""
        self.driver.effects.clear()
        self.driver.advance(10.0)
        welcome = KeyedManager("c").welcome(self.driver.manager.hello(peer("c")))
        self.driver.turn(LinkUp(peer("c")))
        self.hear(welcome)
        heads = [each.head for each in self.driver.effects if isinstance(each, LinkSend)]
        (self.question,) = (
            each.question for each in heads if isinstance(each, peer_frames.OpenStream)
        )
        self.confirm(upto)

    def confirm(self, upto: int) -> None:
        stream = self.queue.stream
        at = max(0, upto - stream.base)
        incarnation = look_into(self.driver.manager).state.identity.incarnation
        said = peer_frames.StreamState(
            self.number,
            stream.sequence_id * (at > 0),
            at,
            question=self.question,
            incarnation=incarnation,
        )
        self.hear(said)

    def hear(self, head: Head) -> None:
        self.driver.turn(LinkFrame(peer("c"), Frame(head, 0, memoryview(b""))))

    def lose(self) -> None:
        self.driver.turn(LinkDown(peer("c"), "cut"))
        self.driver.effects.clear()

    def said(self) -> int:
        heads = [each.head for each in self.driver.effects if isinstance(each, LinkSend)]
        in_frames = [
            each for each in heads if isinstance(each, peer_frames.Data) and each.truncated
        ]
        return len(in_frames) + sum(isinstance(each, peer_frames.Passed) for each in heads)

    def state(self) -> str:
        if not len(self.queue.truncated_transactions):
            return "none"
        return "told" if self.said() else "kept"


def test_an_end_that_is_kept_follows_its_table(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path, "f", window_messages=2)
    kept, seen = Kept(driver), set[steps.Ran]()
    leaves, ended, transmit, pass_over, had, lost, tick, confirmed = (
        row.event for row in TRUNCATED
    )

    def step(event: str, act: Callable[[], object]) -> None:
        before = kept.state()
        ran = steps.ran_while(TRUNCATED, act)
        seen.add((before, event, ran, kept.state()))

    def source_ends() -> None:
        source.say(line, peer_frames.EndStream(7))

    kept.send(b"1", b"2", late=b"3")
    kept.send(b"x")
    kept.connect(0)
    kept.lose()
    step(leaves, lambda: driver.advance(61.0))
    kept.connect(2)
    step(lost, kept.lose)
    step(transmit, lambda: kept.connect(2))
    assert kept.said() == 1
    step(tick, lambda: driver.advance(31.0))
    assert kept.said() == 2
    step(confirmed, lambda: kept.confirm(4))
    kept.lose()

    kept.send(b"1", b"2", late=b"3")
    kept.connect(0)
    kept.lose()
    driver.advance(61.0)
    kept.connect(6)
    kept.lose()
    step(pass_over, lambda: kept.connect(6))
    kept.confirm(7)
    assert kept.state() == "none"
    kept.lose()

    kept.send(b"1", late=b"2")
    kept.connect(0)
    kept.lose()
    driver.advance(61.0)
    assert kept.state() == "kept"
    step(had, lambda: kept.connect(9))
    kept.lose()

    source = Source(driver)
    line = source.line()
    source.say(line, peer_frames.OpenStream(7, ORDERS))
    source.say(line, *source.data(1, b"1"))
    step(ended, source_ends)
    assert seen == steps.as_seen(TRUNCATED)
    assert steps.surviving(TRUNCATED, seen) == []
