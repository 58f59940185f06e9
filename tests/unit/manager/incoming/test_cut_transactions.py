"""Transactions that end short of their last message: who waits for one as a whole is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.requests import moving
from dray.model.classes import Part
from dray.model.message import Message
from dray.wire import message_frames, peer_frames, queue_frames
from dray.wire.record import PartMark
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import Net, address
from tests.unit.manager.requests.test_large_messages import send_large, take_large

LATE = {"time_to_reach_queue": 60.0}


def send_whole(caller: Caller, queue: int, *messages: Message) -> None:
    transaction = caller.number_for()
    for message in messages:
        caller.send(queue, message, transaction=transaction)
    caller.commit(transaction, len(messages))


def whole(caller: Caller, queue: int) -> tuple[list[bytes], list[int]]:
    """Bodies, and what is missing, of the next whole transaction; raises `ReceiveTimeout`."""
    head, body = caller.call_whole(
        message_frames.ReceiveTransaction(queue, caller.number_for(), 0.0)
    )
    assert isinstance(head, message_frames.TransactionMessages)
    found, at = [], 0
    for envelope in head.envelopes:
        at += envelope.length
        found.append(body[at - 1 : at])
    return found, head.missing


def wait_for_whole(caller: Caller, queue: int) -> int:
    """Ask for a whole transaction for ever; the number of the request."""
    return caller.ask(message_frames.ReceiveTransaction(queue, caller.number_for(), None))


def missing_in(caller: Caller, request: int) -> list[int] | None:
    """What is missing in the answer to a request that waited; None if none came."""
    for answer in caller.answers(request):
        assert isinstance(answer.head, message_frames.TransactionMessages)
        return answer.head.missing
    return None


def test_a_transaction_whose_last_messages_expired_in_the_queue_names_them(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    short = {"time_to_be_received": 1.0}
    send_whole(caller, queue, Message(body=b"1"), Message(body=b"2"),
               Message(body=b"3", **short), Message(body=b"4", **short))  # fmt: skip
    driver.advance(2.0)
    assert whole(caller, queue) == ([b"1", b"2"], [3, 4])


def test_a_message_alone_ends_in_its_frame_what_went_on_before_it(net: Net) -> None:
    """The last of a transaction has expired; what bridges it comes in the same frame."""
    caller = net["a"].session()
    queue = caller.open(address("c", "orders"))
    net.block("a", "c")
    send_whole(caller, queue, Message(body=b"1"), Message(body=b"2", **LATE))
    caller.send(queue, Message(body=b"alone"))
    net["a"].advance(61.0)
    net.unblock("a", "c")
    net.advance(31.0)
    receiver = net["c"].session()
    assert whole(receiver, receiver.open("orders")) == ([b"1"], [2])
    assert not look_into(net["c"].manager).state.arrival_routes.any_going


def test_what_someone_else_holds_of_a_transaction_is_waited_for(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    send_whole(caller, queue, *(Message(body=b"%d" % n) for n in (1, 2, 3)))
    holding = other.number_for()
    other.receive(queue, transaction=holding, max_messages=1)
    request = wait_for_whole(caller, queue)
    assert missing_in(caller, request) is None
    other.commit(holding, 0)
    assert missing_in(caller, request) == [1]


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ac")
    net["c"].session().create("orders")
    return net


def send_and_lose_the_last(net: Net, source: str, lost: int = 1) -> None:
    """Two messages of a transaction arrive; the line breaks, and the others expire at the source.

    The window is of two messages, so that nothing of the others is on its way.
    """
    caller = net[source].session()
    messages = [Message(body=b"1"), Message(body=b"2")]
    messages += [Message(body=b"%d" % (3 + n), **LATE) for n in range(lost)]
    send_whole(caller, caller.open(address("c", "orders")), *messages)


def narrow(net: Net, host: str) -> None:
    """Let no more than two messages be under way from a manager."""
    net[host].options["window_messages"] = 2
    net.crash(host)


@pytest.mark.parametrize("restart", ["", "a", "c"])
def test_the_last_of_a_transaction_expired_at_its_source(net: Net, restart: str) -> None:
    narrow(net, "a")
    net.block("a", "c")
    send_and_lose_the_last(net, "a", lost=2)
    net.unblock("a", "c")
    net["a"].advance(31.0)
    receiver = net["c"].session()
    orders = receiver.open("orders")
    # Two have left; the line breaks before they are acknowledged, and the rest expires.
    carried = carry_first_data(net)
    assert carried == 2
    with pytest.raises(errors.ReceiveTimeout):
        whole(receiver, orders)
    net.block("a", "c")
    net["a"].advance(61.0)
    net.unblock("a", "c")
    if restart == "a":
        net.crash("a")
    net["a"].advance(31.0)
    net.deliver()
    if restart == "c":
        net.crash("c")
        receiver = net["c"].session()
        orders = receiver.open("orders")
    assert whole(receiver, orders) == ([b"1", b"2"], [3, 4])
    assert net["a"].store.live_bytes == 0


def carry_first_data(net: Net) -> int:
    """Carry what is said until messages have arrived; how many."""
    for _ in range(20):
        for host in net.drivers:
            net._carry(host)
        data = [head for _, _, head in net.said if isinstance(head, peer_frames.Data)]
        if data:
            return len(data[0].envelopes)
    return 0


@pytest.mark.parametrize("crash", [False, True])
def test_the_last_of_a_transaction_was_refused_by_the_quota_of_its_queue(
    net: Net, crash: bool
) -> None:
    net["c"].session().create("small", quota=400)
    caller = net["a"].session()
    messages = [Message(body=bytes(100)), Message(body=bytes(100)), Message(body=bytes(1000))]
    send_whole(caller, caller.open(address("c", "small")), *messages)
    net.deliver()
    if crash:
        net.crash("c")
    receiver = net["c"].session()
    assert whole(receiver, receiver.open("small")) == ([b"\0", b"\0"], [3])


def test_who_waits_for_a_whole_transaction_is_served_when_it_is_cut_short(net: Net) -> None:
    receiver = net["c"].session()
    small = receiver.create("small", quota=400)
    wait_for_whole(receiver, small)
    caller = net["a"].session()
    messages = [Message(body=bytes(100)), Message(body=bytes(1000))]
    send_whole(caller, caller.open(address("c", "small")), *messages)
    net.deliver()
    with pytest.raises(errors.ReceiveTimeout):
        net["c"].session().receive(small, peek=True)
    assert receiver.call(queue_frames.DescribeQueue("small")).info.message_count == 1


def test_a_transaction_cut_short_before_it_was_forwarded_is_told_of_behind_the_hop(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    receiver = net["c"].session()
    orders = receiver.create("orders")
    narrow(net, "a")
    send_and_lose_the_last(net, "a")
    assert carry_first_data(net) == 2
    net.block("a", "b")
    net.advance(61.0)
    assert receiver.receive(orders, peek=True)[1] == [b"1", b"2"]
    with pytest.raises(errors.ReceiveTimeout):
        whole(receiver, orders)
    net.unblock("a", "b")
    net.advance(31.0)
    assert whole(receiver, orders) == ([b"1", b"2"], [3])
    assert [net[host].store.live_bytes for host in "ab"] == [0, 0]


def test_a_transaction_that_is_still_being_forwarded_is_not_cut_short(tmp_path: Path) -> None:
    """What went on behind a hop may be behind what expired there."""
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    receiver = net["c"].session()
    orders = receiver.create("orders")
    narrow(net, "a")
    caller = net["a"].session()
    messages = [Message(body=b"1"), Message(body=b"2", **LATE), Message(body=b"3")]
    send_whole(caller, caller.open(address("c", "orders")), *messages)
    net.block("b", "c")
    assert carry_first_data(net) == 2
    net.block("a", "b")
    net.unblock("b", "c")
    net.block("b", "c")
    net.advance(61.0)
    net.unblock("b", "c")
    net.advance(31.0)
    assert receiver.receive(orders, peek=True)[1] == [b"1"]
    with pytest.raises(errors.ReceiveTimeout):
        whole(receiver, orders)
    net.unblock("a", "b")
    net.advance(31.0)
    assert whole(receiver, orders) == ([b"1", b"3"], [2])


@pytest.mark.parametrize("crash", [False, True])
def test_a_large_message_whose_trailer_expired_on_the_way_is_a_hole(net: Net, crash: bool) -> None:
    receiver = net["c"].session()
    large = receiver.create("large")
    narrow(net, "a")
    caller = net["a"].session()
    queue, transaction = caller.open(address("c", "large")), caller.number_for()
    sequence = send_large(caller, queue, 1, transaction, trailer=False)
    end = PartMark(Part.TRAILER, sequence, 1)
    trailer = Message(app_specific=-9999, **LATE)
    caller.send(queue, trailer, transaction=transaction, marks=(end,), guarded=False)
    caller.commit(transaction, 3)
    assert carry_first_data(net) == 2
    with pytest.raises(errors.ReceiveTimeout):
        take_large(receiver, large, receiver.number_for())
    net.block("a", "c")
    net["a"].advance(61.0)
    net.unblock("a", "c")
    net.advance(31.0)
    if crash:
        net.crash("c")
        receiver = net["c"].session()
        large = receiver.open("large")
    with pytest.raises(errors.LargeMessageHole) as hole:
        take_large(receiver, large, receiver.number_for())
    assert hole.value.missing == ["trailer"]


def test_a_large_message_that_begins_behind_a_truncated_one_is_in_flight_and_no_hole(
    net: Net,
) -> None:
    receiver = net["c"].session()
    large = receiver.create("large")
    narrow(net, "a")
    caller = net["a"].session()
    queue = caller.open(address("c", "large"))
    sequences = []
    for late in (LATE, {}):
        transaction = caller.number_for()
        sequence = send_large(caller, queue, 1, transaction, trailer=False)
        end = PartMark(Part.TRAILER, sequence, 1)
        trailer = Message(app_specific=-9999, **late)
        caller.send(queue, trailer, transaction=transaction, marks=(end,), guarded=False)
        caller.commit(transaction, 3)
        sequences.append(sequence)
    assert carry_first_data(net) == 2
    net.block("a", "c")
    net["a"].advance(61.0)
    net.unblock("a", "c")
    net["a"].advance(31.0)
    index = look_into(net["c"].manager).state.queues.numbered(large).index
    while len(index) < 4:
        assert net.step()
    with pytest.raises(errors.LargeMessageHole):
        take_large(receiver, large, receiver.number_for())
    with pytest.raises(errors.ReceiveTimeout):
        take_large(receiver, large, receiver.number_for())
    net.advance(31.0)
    assert take_large(receiver, large, receiver.number_for()).sequence == sequences[1]


def test_a_large_message_in_flight_is_no_hole_after_its_destination_has_crashed(net: Net) -> None:
    net["c"].session().create("large")
    narrow(net, "a")
    caller = net["a"].session()
    transaction = caller.number_for()
    sequence = send_large(caller, caller.open(address("c", "large")), 1, transaction)
    caller.commit(transaction, 3)
    assert carry_first_data(net) == 2
    net.crash("c")
    receiver = net["c"].session()
    large = receiver.open("large")
    with pytest.raises(errors.ReceiveTimeout):
        take_large(receiver, large, receiver.number_for())
    net.advance(31.0)
    assert take_large(receiver, large, receiver.number_for()).sequence == sequence


def test_of_what_was_coming_into_a_queue_nothing_comes_on_when_it_is_deleted(net: Net) -> None:
    """Its number is never given again, so nobody else would ever end it."""
    narrow(net, "a")
    send_and_lose_the_last(net, "a")
    assert carry_first_data(net) == 2
    assert look_into(net["c"].manager).state.arrival_routes.any_going
    net["c"].session().call(queue_frames.DeleteQueue("orders"))
    assert not look_into(net["c"].manager).state.arrival_routes.any_going
    net.crash("c")
    assert not look_into(net["c"].manager).state.arrival_routes.any_going


@pytest.mark.parametrize("looked_at", [10_000, 3])
def test_of_whole_transactions_that_are_over_the_one_that_began_first_is_given(
    net: Net, looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was truncated is not put off for as long as others come whole."""
    monkeypatch.setattr(moving, "_LOOKED_AT_MAX", looked_at)
    narrow(net, "a")
    send_and_lose_the_last(net, "a")
    assert carry_first_data(net) == 2
    net.block("a", "c")
    receiver = net["c"].session()
    orders = receiver.open("orders")
    for body in (b"x", b"y", b"z"):
        receiver.send(orders, Message(body=body))
    net["a"].advance(61.0)
    net.unblock("a", "c")
    net.advance(31.0)
    found = [b"".join(whole(receiver, orders)[0]) for _ in range(4)]
    expected = [b"x", b"y", b"12", b"z"] if looked_at == 3 else [b"12", b"x", b"y", b"z"]
    assert found == expected
