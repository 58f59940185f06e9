"""What a destination refuses is a dead letter at its source, unless its sender said no."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dray.model.classes import Acknowledge, MessageClass, Part
from dray.model.message import Message
from dray.model.queue import QueueInfo
from dray.wire import large_frames, peer_frames, queue_frames
from dray.wire.record import PartMark
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller
from tests.unit.manager.net import Net, address

ORDERS = address("d", "orders")
DEAD = "system$;deadxact"
BODY = 1_000
ROOM = 2 * (BODY + 64) + 200
"""For two messages."""
FULL = MessageClass.NACK_Q_EXCEED_QUOTA


def numbered(*numbers: int, dead_letter: bool | None = None, **more: object) -> list[Message]:
    return [
        Message(body=b"%04d" % n * (BODY // 4), use_dead_letter_queue=dead_letter, **more)
        for n in numbers
    ]


def contents(caller: Caller, queue: str) -> list[int]:
    _, bodies = caller.what_is_in(caller.open(queue))
    return [int(body[:4]) for body in bodies]


def info(caller: Caller, queue: str = ORDERS) -> QueueInfo:
    return caller.call(queue_frames.DescribeQueue(queue)).info


def kinds(net: Net, host: str) -> dict[str, int]:
    found = Counter[str]()
    for each in net[host].manager.notices():
        found[each.kind] += each.times
    return dict(found)


@pytest.fixture
def net(tmp_path: Path) -> Net:
    """`a` sends to `d`, whose queue has room for two messages."""
    net = Net(tmp_path, "ad")
    net["d"].session().create("orders", quota=ROOM)
    return net


@pytest.mark.parametrize(
    ("wish", "dead"), [(None, [3, 4, 5]), (True, [3, 4, 5]), (False, [])], ids=str
)
def test_messages_that_a_full_queue_refuses_are_dead_letters_at_their_source_in_order(
    net: Net, wish: bool | None, dead: list[int]
) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4, 5, dead_letter=wish))
    net.deliver()
    assert contents(receiver, "orders") == [1, 2]
    assert contents(sender, DEAD) == dead
    assert info(sender).message_count == 0
    assert kinds(net, "a") == {"refused-quota-exceeded": 3}
    # Of those that arrived nothing waits at the source unless their sender said yes.
    assert info(sender, "order_queue$").message_count == (2 if wish else 0)


@pytest.mark.parametrize("later", [False, True], ids=["alone", "before another"])
def test_a_large_message_that_was_refused_in_part_is_no_longer_in_flight(
    net: Net, later: bool
) -> None:
    sender = net["a"].session()
    queue, transaction = sender.open(ORDERS), sender.number_for()
    header = Message(app_specific=-9998, body=bytes(ROOM))
    sent = {"transaction": transaction, "guarded": False}
    (sequence,) = sender.send(queue, header, marks=(PartMark(Part.HEADER),), **sent)
    trailer = Message(app_specific=-9999)
    sender.send(queue, trailer, marks=(PartMark(Part.TRAILER, sequence, 0),), **sent)
    sender.commit(transaction, 2)
    if later:
        sender.send(queue, *numbered(1), guarded=False)
    net.deliver()
    (listed,) = sender.call(large_frames.LargeList(sender.open(DEAD), 0, 10)).entries
    assert (listed.sequence, listed.missing) == (sequence, ["trailer"])


def test_the_operator_is_told_once_that_a_stream_is_refused_and_once_that_it_goes_on(
    net: Net,
) -> None:
    sender, typo = net["a"].session(), address("d", "typo")
    for number in (1, 2):
        sender.send(sender.open(typo), *numbered(number))
        net.deliver()
    assert kinds(net, "a")["stream-refused"] == 1
    net["d"].session().create("typo")
    for number in (3, 4):
        sender.send(sender.open(typo), *numbered(number))
        net.deliver()
    assert contents(net["d"].session(), "typo") == [3, 4]
    assert kinds(net, "a") == {"stream-goes-on": 1}


@pytest.mark.parametrize("host", ["a", "d"])
def test_a_crash_after_any_frame_leaves_each_refused_message_in_one_place(
    tmp_path: Path, host: str
) -> None:
    steps = 0
    while True:
        net = Net(tmp_path / str(steps), "ad")
        net["d"].session().create("orders", quota=ROOM)
        sender = net["a"].session()
        sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4))
        went_on = all(net.step() for _ in range(steps))
        net.crash(host)
        for _ in range(3):
            net.advance(40.0)
        sender, receiver = net["a"].session(), net["d"].session()
        assert contents(receiver, "orders") == [1, 2], steps
        assert contents(sender, DEAD) == [3, 4], steps
        assert info(sender).message_count == 0
        if not went_on:
            break
        steps += 1
    assert steps > 8


@pytest.mark.parametrize("steps", range(3, 14))
def test_a_line_that_breaks_after_any_frame_leaves_each_refused_message_in_one_place(
    net: Net, steps: int
) -> None:
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4))
    for _ in range(steps):
        net.step()
    net.cut("a", "d")
    for _ in range(3):
        net.advance(40.0)
    assert contents(net["d"].session(), "orders") == [1, 2]
    assert contents(sender, DEAD) == [3, 4]


def test_the_source_keeps_a_message_until_it_has_heard_whether_it_was_refused(net: Net) -> None:
    """The order ack comes first, and counts only when the word has come."""
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3))
    while not any(isinstance(head, peer_frames.Data) for _, _, head in net.said):
        net.step()
    acks = [each for each in net["d"].effects if isinstance(each.head, peer_frames.StreamState)]
    (told,) = [
        each for each in net["d"].effects if isinstance(each.head, peer_frames.Confirmations)
    ]
    assert acks[-1].head.refused == 1
    net["d"].effects.remove(told)
    net.deliver()
    assert info(sender).message_count == 3
    net["d"].effects.append(told)
    net.deliver()
    assert info(sender).message_count == 0
    assert contents(sender, DEAD) == [3]


def test_what_was_received_before_the_order_ack_counts_is_in_the_journal(net: Net) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3, use_journal_queue=True))
    while not any(isinstance(head, peer_frames.Data) for _, _, head in net.said):
        net.step()
    held, net["d"].effects = net["d"].effects, []
    receiver.receive(receiver.open("orders"), max_messages=2)
    # Word of the refusal and of both receipts comes in one frame.
    net["d"].effects[:0] = [
        each for each in held if not isinstance(each.head, peer_frames.Confirmations)
    ]
    net.cut("a", "d")
    net.advance(40.0)
    assert contents(sender, "system$;journal") == [1, 2]
    assert contents(sender, DEAD) == [3]
    assert info(sender, "order_queue$").message_count == 0


def test_an_expired_message_is_a_dead_letter_only_if_its_sender_asked(net: Net) -> None:
    net.block("a", "d")
    sender = net["a"].session()
    queue = sender.open(ORDERS)
    sender.send(queue, *numbered(1, time_to_reach_queue=5.0))
    sender.send(queue, *numbered(2, time_to_reach_queue=5.0, dead_letter=True))
    for _ in range(3):
        net.advance(4.0)
    assert contents(sender, DEAD) == [2]
    assert kinds(net, "a") == {"ended-expired": 2}


def test_an_end_after_the_arrival_is_a_dead_letter_only_if_the_sender_asked(net: Net) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    queue = sender.open(ORDERS)
    sender.send(queue, *numbered(1), *numbered(2, dead_letter=True))
    net.deliver()
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))
    net.deliver()
    assert contents(sender, DEAD) == [2]
    assert kinds(net, "a") == {"ended-purged": 2}


def test_an_express_message_that_is_refused_is_a_dead_letter_that_lasts(tmp_path: Path) -> None:
    net = Net(tmp_path, "ad")
    net["d"].session().create("orders", quota=ROOM, transactional=False)
    sender = net["a"].session()
    queue = sender.open(ORDERS)
    sender.send(queue, *numbered(1))
    net.deliver()
    for number in (2, 3, 4):
        sender.send(queue, *numbered(number, recoverable=False))
    net.deliver()
    net.crash("a")
    assert contents(net["a"].session(), DEAD) == [3, 4]


def test_who_asked_for_it_is_told_once_that_a_message_was_refused(net: Net) -> None:
    sender = net["a"].session()
    acks = sender.create("acks")
    asked = Acknowledge.FULL_REACH_QUEUE
    sender.send(
        sender.open(ORDERS), *numbered(1, 2, 3, acknowledge=asked, administration_queue="acks")
    )
    net.deliver()
    envelopes, _ = sender.what_is_in(acks)
    classes = [MessageClass.ACK_REACH_QUEUE] * 2 + [FULL]
    assert [each.message_class for each in envelopes] == classes


class TestForwarded:
    """`a` sends by way of `b` to a queue at `d`."""

    @pytest.fixture
    def net(self, tmp_path: Path) -> Net:
        net = Net(tmp_path, "abd", routes={"a": {"d": "b"}})
        net["d"].session().create("orders", quota=ROOM)
        return net

    def test_what_the_last_manager_refuses_is_a_dead_letter_at_the_one_that_forwards(
        self, net: Net
    ) -> None:
        sender = net["a"].session()
        sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4))
        net.deliver()
        assert contents(net["d"].session(), "orders") == [1, 2]
        assert contents(net["b"].session(), DEAD) == [3, 4]
        assert contents(sender, DEAD) == []
        (told,) = net["a"].manager.notices()
        assert (told.kind, told.times) == ("refused-quota-exceeded", 2)
        assert "another manager keeps it" in told.sentence
        assert kinds(net, "b") == {"refused-quota-exceeded": 2}

    def test_its_source_has_it_if_the_sender_said_yes_and_nobody_if_no(self, net: Net) -> None:
        sender = net["a"].session()
        queue = sender.open(ORDERS)
        sender.send(queue, *numbered(1, 2, 3, dead_letter=True))
        sender.send(queue, *numbered(4, dead_letter=False))
        net.deliver()
        assert contents(net["b"].session(), DEAD) == []
        assert contents(sender, DEAD) == [3]

    def test_messages_to_a_queue_that_is_not_there_stay_where_that_is_found_out(
        self, net: Net
    ) -> None:
        sender = net["a"].session()
        sender.send(sender.open(address("d", "typo")), *numbered(1, 2))
        net.deliver()
        assert contents(net["b"].session(), DEAD) == [1, 2]
        assert kinds(net, "a") == {"refused-queue-not-found": 2}

    @pytest.mark.parametrize("host", ["a", "b", "d"])
    def test_a_crash_after_any_frame_leaves_each_in_one_place(
        self, tmp_path: Path, host: str
    ) -> None:
        for steps in range(3, 30):
            net = Net(tmp_path / str(steps), "abd", routes={"a": {"d": "b"}})
            net["d"].session().create("orders", quota=ROOM)
            sender = net["a"].session()
            sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4))
            for _ in range(steps):
                net.step()
            net.crash(host)
            for _ in range(4):
                net.advance(40.0)
            assert contents(net["d"].session(), "orders") == [1, 2], steps
            assert contents(net["b"].session(), DEAD) == [3, 4], steps
            assert contents(net["a"].session(), DEAD) == [], steps


def test_a_dead_letter_for_which_the_quota_has_no_room_is_said(net: Net) -> None:
    sender = net["a"].session()
    sender.call(queue_frames.SetQuota("", None, 2 * BODY))
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4, 5))
    net.deliver()
    assert contents(sender, DEAD) == [3]
    assert kinds(net, "a")["dead-letter-lost"] == 2


def test_where_messages_stay_that_are_no_dead_letters_for_want_of_room_nothing_is_kept(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, "ad")
    receiver = net["d"].session()
    receiver.create("orders", transactional=False, quota=ROOM)
    receiver.call(queue_frames.SetQuota("", None, 2 * BODY))
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *numbered(1, 2, 3, 4, 5, dead_letter=True))
    net.deliver()
    assert len(contents(receiver, "system$;deadletter")) == 1
    assert contents(receiver, "orders") == [1, 2]
    assert net["d"].store.live_bytes == 0


class TestMissingQueue:
    """`d` has no queue `typo`."""

    TYPO = address("d", "typo")

    def test_an_outgoing_queue_says_that_its_destination_refuses_and_why(self, net: Net) -> None:
        sender = net["a"].session()
        queue = sender.open(self.TYPO)
        sender.send(queue, *numbered(1, 2))
        net.deliver()
        sender.send(queue, *numbered(3))
        net.deliver()
        found = info(sender, self.TYPO)
        assert found.state == "refused"
        assert found.message_count == 0
        refusal = found.delivery.refusal
        assert (refusal.code, refusal.count) == ("queue-not-found", 3)
        assert "there is no queue 'typo'" in refusal.sentence
        assert refusal.since <= look_into(net["a"].manager).now
        (listed,) = [
            each for each in sender.call(queue_frames.ListQueues()).queues if each.name == self.TYPO
        ]
        assert (listed.state, listed.delivery.refusal) == ("refused", refusal)
        assert contents(sender, DEAD) == [1, 2, 3]

    def test_a_queue_that_is_made_later_is_noticed_at_once(self, net: Net) -> None:
        sender = net["a"].session()
        queue = sender.open(self.TYPO)
        sender.send(queue, *numbered(1), guarded=False)
        net.deliver()
        net["d"].session().create("typo")
        net.deliver()
        assert info(sender, self.TYPO).state == "connected"
        assert info(sender, self.TYPO).delivery.refusal is None
        sender.send(queue, *numbered(2))
        net.deliver()
        assert contents(net["d"].session(), "typo") == [2]
        assert contents(sender, DEAD) == [1]

    def test_messages_flow_to_a_queue_that_is_made_while_no_word_comes(self, net: Net) -> None:
        """Whoever sends more asks again; no schedule is waited for."""
        sender = net["a"].session()
        queue = sender.open(self.TYPO)
        sender.send(queue, *numbered(1), guarded=False)
        net.deliver()
        net["d"].session().create("typo")
        net["d"].effects.clear()
        sender.send(queue, *numbered(2))
        net.deliver()
        assert contents(net["d"].session(), "typo") == [2]

    def test_a_refusal_is_asked_about_again_after_a_restart(self, net: Net) -> None:
        sender = net["a"].session()
        sender.send(sender.open(self.TYPO), *numbered(1))
        net.deliver()
        net.crash("a")
        net.advance(1.0)
        assert info(net["a"].session(), self.TYPO).state == "refused"


def test_a_full_queue_is_a_refusal_until_it_takes_messages_again(net: Net) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    queue = sender.open(ORDERS)
    sender.send(queue, *numbered(1, 2, 3))
    net.deliver()
    found = info(sender)
    assert found.state == "refused"
    assert (found.delivery.refusal.code, found.delivery.refusal.count) == ("quota-exceeded", 1)
    receiver.receive(receiver.open("orders"), max_messages=2)
    sender.send(queue, *numbered(4))
    net.deliver()
    assert info(sender).state == "connected"
    assert contents(receiver, "orders") == [4]
