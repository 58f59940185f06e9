"""Order acks and word of messages: noted in facts that the log has room for, told with a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.manager.queue import KEPT_BYTES
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.message_frames import MARK_FIRST, MARK_LAST, Envelope
from dray.wire.record import encode_record
from tests.unit.manager.change.test_departures import dead
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import Net, address
from tests.unit.manager.requests.test_large_messages import send_large

ORDERS = address("d", "orders")
KEPT = {"use_dead_letter_queue": True}
FULL = MessageClass.NACK_Q_EXCEED_QUOTA


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ad")
    net["d"].session().create("orders")
    return net


def count(caller: Caller, queue: str) -> int:
    return caller.call(queue_frames.DescribeQueue(queue)).info.message_count


def small_portions(patch: pytest.MonkeyPatch, size: int, *, full: bool) -> None:
    """Facts of so many bytes; the log takes no more in this turn, or any number of them."""
    patch.setattr(RoomLeft, "portion_bytes", property(lambda _: size))
    patch.setattr(RoomLeft, "has_said_enough", property(lambda _: full))


def step_to(net: Net, kind: type[Head]) -> None:
    while not any(isinstance(head, kind) for _, _, head in net.said):
        assert net.step()


def test_an_order_ack_that_one_fact_cannot_hold_is_noted_in_several(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *[Message(body=b"x", **KEPT)] * 3)
    small_portions(monkeypatch, TAIL_BYTES, full=False)
    net.deliver()
    assert (count(sender, ORDERS), count(sender, "order_queue$")) == (0, 3)
    assert ("a", "d") in net.lines.values()


def test_a_restart_counts_no_large_message_where_what_waits_for_word_lies(net: Net) -> None:
    sender = net["a"].session()
    queue, transaction = sender.open(ORDERS), sender.number_for()
    send_large(sender, queue, 2, transaction, **KEPT)
    sender.commit(transaction, 3)
    net.deliver()
    for _ in range(2):
        described = sender.call(queue_frames.DescribeQueue("order_queue$")).info
        assert (described.message_count, described.large_count) == (4, 0)
        net.crash("a")
        sender = net["a"].session()


@pytest.mark.parametrize("crashed", ["", "a"])
def test_what_waits_for_word_when_its_source_crashes_is_a_dead_letter_there_once_word_has_come(
    net: Net, crashed: str
) -> None:
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), Message(body=b"x", **KEPT))
    net.deliver()
    if crashed:
        net.crash(crashed)
        sender = net["a"].session()
    assert count(sender, "order_queue$") == 1
    receiver = net["d"].session()
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))
    net.advance(31.0)
    assert dead(sender) == [(MessageClass.NACK_Q_PURGED, b"x")]
    assert count(sender, "order_queue$") == 0


def test_an_order_ack_that_the_log_cannot_hold_is_noted_in_part_and_heard_again(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *[Message(body=b"x", **KEPT)] * 3)
    step_to(net, peer_frames.Data)
    with monkeypatch.context() as patch:
        small_portions(patch, TAIL_BYTES, full=True)
        net.deliver()
    assert (count(sender, ORDERS), count(sender, "order_queue$")) == (2, 1)
    assert ("a", "d") not in net.lines.values()
    net.advance(31.0)
    assert (count(sender, ORDERS), count(sender, "order_queue$")) == (0, 3)
    assert count(net["d"].session(), "orders") == 3


def test_of_word_exactly_as_much_is_acted_on_in_one_fact_as_it_has_room_for(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    net["d"].session().call(queue_frames.SetQuota("orders", 1, None))
    sender = net["a"].session()
    sender.send(sender.open(ORDERS), *[Message(body=b"x")] * 3)
    step_to(net, peer_frames.Data)
    with monkeypatch.context() as patch:
        small_portions(patch, 2 * KEPT_BYTES, full=True)
        net.deliver()
    assert len(dead(sender)) == 2
    net.advance(0.0)
    assert len(dead(sender)) == 3


def test_no_more_word_is_told_ahead_of_what_a_source_took_than_the_bound(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.confirmations.CONFIRMATIONS_AHEAD_MAX", 2)
    driver.session().create("orders", quota=1)
    source = driver.source(500, "b")
    source.say(peer_frames.OpenStream(1, "orders"))

    def told(head: Head, body: bytes = b"") -> list[int]:
        """The numbers of the messages of which something is told in answer to a frame."""
        said = [
            each for each in source.say(head, body) if isinstance(each, peer_frames.Confirmations)
        ]
        return [each.number for head in said for each in head.confirmations]

    def data(*numbers: int) -> tuple[Head, bytes]:
        """Messages that the queue has no room for."""
        envelopes, records = [], b""
        for number in numbers:
            record = b"".join(encode_record(Message(), bytes.fromhex(id_named("b")), number))
            records += record
            envelopes.append(
                Envelope(
                    0, len(record), crc32c(record), number, 0, 0, MARK_FIRST | MARK_LAST,
                    ordinal=1, number=number,
                )
            )  # fmt: skip
        return peer_frames.Data(1, 1 << 32, numbers[0] - 1, envelopes), records

    assert told(*data(1, 2, 3)) == [1, 2]
    assert told(*data(4)) == []
    assert told(peer_frames.ConfirmationsAcked(1, 1)) == [3]
    assert told(peer_frames.ConfirmationsAcked(1, 3)) == [4]


def test_what_ended_behind_a_hop_before_its_order_ack_counted_is_a_dead_letter_at_its_origin(
    tmp_path: Path,
) -> None:
    """Word of it comes together with word of a message that was refused."""
    net = Net(tmp_path, "abd", {"a": {"d": "b"}})
    receiver = net["d"].session()
    orders = receiver.create("orders", quota=500)
    sender = net["a"].session()
    bodies = b"purged", bytes(1000)
    sender.send(sender.open(ORDERS), *[Message(body=each, **KEPT) for each in bodies])
    while count(receiver, "orders") == 0:
        assert net.step()
    net.block("b", "d")
    receiver.call(queue_frames.PurgeQueue(orders))
    net.unblock("b", "d")
    net.advance(31.0)
    assert sorted(dead(sender)) == sorted(
        [(FULL, bodies[1]), (MessageClass.NACK_Q_PURGED, bodies[0])]
    )
    assert dead(net["b"].session()) == []


def test_a_refusal_of_the_rest_counts_when_word_of_what_was_refused_before_has_come(
    net: Net,
) -> None:
    receiver = net["d"].session()
    receiver.call(queue_frames.SetQuota("orders", 200, None))
    sender = net["a"].session()
    queue = sender.open(ORDERS)
    bodies = b"fits", bytes(1000)
    sender.send(queue, *[Message(body=each) for each in bodies])
    step_to(net, peer_frames.Data)
    held = [each for each in net["d"].effects if isinstance(each.head, peer_frames.Confirmations)]
    net["d"].effects.clear()
    receiver.call(queue_frames.DeleteQueue("orders"))
    sender.send(queue, Message(body=b"too late"))
    net["a"].advance(31.0)
    net.deliver()
    assert (count(sender, ORDERS), dead(sender)) == (3, [])
    net["d"].effects += held
    net.deliver()
    net.advance(0.0)
    assert count(sender, ORDERS) == 0
    assert dead(sender) == [(FULL, bodies[1]), (MessageClass.NACK_BAD_DST_Q, b"too late")]
