"""What an attacker of departures, expiry, confirmations and two phases has tried."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.entries import unpack
from dray.manager.events import LinkFrame, SessionClosed
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.store.kinds import file_name
from dray.testing.keyed_manager import id_named
from dray.wire import frames, large_frames, message_frames, peer_frames, queue_frames
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.change.test_departures import acknowledged, asking, dead
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair, bodies_at_destination, pair  # noqa: F401 - a fixture
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def prepare(caller: Caller, transaction: int, sends: int) -> str:
    caller.call(message_frames.Prepare(transaction, sends))
    return f"{caller.driver.manager_id}\\{transaction}"


@pytest.mark.parametrize("what", ["sent to", "received from"])
def test_a_queue_that_a_prepared_transaction_uses_cannot_be_deleted(
    driver: ManagerDriver, what: str
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"a"), transaction=transaction * (what == "sent to"))
    if what == "received from":
        caller.receive(queue, transaction=transaction)
    name = prepare(caller, transaction, int(what == "sent to"))
    driver.crash()
    caller = driver.session()
    caller.send(caller.open("orders"), asking(b"b", Acknowledge.FULL_RECEIVE))
    with pytest.raises(errors.Misuse, match="prepared transaction"):
        caller.call(queue_frames.DeleteQueue("orders"))
    assert acknowledged(caller) == []
    assert b"b" in caller.what_is_in("orders", peek=True)[1]
    caller.call(message_frames.SettlePrepared(name, commit=True))
    caller.call(queue_frames.DeleteQueue("orders"))
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_Q_DELETED]
    assert driver.store.live_bytes == 0


def test_deleting_a_queue_tells_of_what_was_held_and_the_holder_cannot_commit(
    driver: ManagerDriver,
) -> None:
    """Else the sender would hear that it was not received, and it was."""
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", Acknowledge.FULL_RECEIVE, use_dead_letter_queue=True))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.call(queue_frames.DeleteQueue("orders"))
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_Q_DELETED]
    assert dead(caller) == [(MessageClass.NACK_Q_DELETED, b"a")]
    with pytest.raises(
        errors.TransactionAborted, match=r"the queue 'orders' that .* has been deleted"
    ):
        caller.commit(transaction, 0)
    driver.crash()
    assert dead(driver.session()) == [(MessageClass.NACK_Q_DELETED, b"a")]


def test_deleting_a_queue_tells_of_what_was_in_its_sub_queues_and_of_who_waits_there(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    retry = caller.open("orders;retry")
    caller.send(queue, Message(body=b"moved", use_dead_letter_queue=True))
    envelopes, _ = caller.receive(queue, peek=True)
    caller.call(message_frames.Move(queue, envelopes[0].lookup_id, retry, 0))
    other = caller.open("orders;other")
    waiting = caller.ask(message_frames.Receive(other, 0, None))
    caller.call(queue_frames.DeleteQueue("orders"))
    assert dead(caller) == [(MessageClass.NACK_Q_DELETED, b"moved")]
    assert caller.answers(waiting)[0].head.error == "queue-not-found"


def test_a_move_to_a_sub_queue_that_was_deleted_meanwhile_is_undone(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    retry, transaction = caller.open("orders;retry"), caller.number_for()
    caller.send(queue, Message(body=b"a"))
    envelopes, _ = caller.receive(queue, peek=True)
    caller.call(message_frames.Move(queue, envelopes[0].lookup_id, retry, transaction))
    caller.call(queue_frames.DeleteQueue("orders;retry"))
    with pytest.raises(errors.TransactionAborted):
        caller.commit(transaction, 0)
    assert caller.receive(queue)[1] == [b"a"]


@pytest.mark.parametrize(
    "name", ["order_queue$", "system$;deadxact", "orders;journal", "orders;retry"]
)
def test_acknowledgments_go_to_no_queue_that_nobody_may_send_to(
    driver: ManagerDriver, name: str
) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.open("orders;retry")
    asked = Acknowledge.POSITIVE_ARRIVAL
    caller.send(queue, Message(acknowledge=asked, administration_queue=name))
    assert caller.call(queue_frames.DescribeQueue(name)).info.message_count == 0
    told = [str(each) for each in driver.manager.notices()]
    assert any("no acknowledgment message can be sent" in each for each in told)


def test_a_missing_administration_queue_undoes_nothing_and_is_told(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", Acknowledge.FULL_RECEIVE | Acknowledge.POSITIVE_ARRIVAL))
    assert caller.receive(queue)[1] == [b"a"]
    assert any("acks" in str(each) for each in driver.manager.notices())


@pytest.mark.parametrize("transactional", [True, False])
def test_acknowledgments_reach_an_administration_queue_of_another_manager(
    pair: Pair,  # noqa: F811
    transactional: bool,
) -> None:
    receiver = pair.destination.session()
    receiver.create("acks", transactional=transactional)
    caller = pair.source.session()
    queue = caller.create("here")
    remote = ADDRESS.replace("orders", "acks")
    asked = Acknowledge.POSITIVE_ARRIVAL
    (number,) = caller.send(queue, Message(acknowledge=asked, administration_queue=remote))
    pair.deliver()
    expected = (MessageClass.ACK_REACH_QUEUE, f"{id_named('a')}\\{number}")
    assert acknowledged(receiver) == [expected]


@pytest.mark.parametrize("name", ["order_queue$", "system$;deadxact", "orders;retry"])
def test_no_stream_leads_into_a_queue_that_nobody_may_send_to(
    pair: Pair,  # noqa: F811
    name: str,
) -> None:
    receiver = pair.destination.session()
    receiver.open("orders;retry")
    caller = pair.source.session()
    remote = ADDRESS.replace("orders", name)
    caller.send(caller.open(remote), Message(body=b"a", use_dead_letter_queue=True))
    pair.deliver()
    assert receiver.call(queue_frames.DescribeQueue(name)).info.message_count == 0
    assert dead(caller) == [(MessageClass.NACK_ACCESS_DENIED, b"a")]


def test_a_stream_that_is_not_open_on_its_connection_is_no_missing_queue(
    pair: Pair,  # noqa: F811
) -> None:
    """Said as a missing queue, it would send a whole outgoing queue to the dead letters."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"a"))
    pair.deliver(upto=4)
    refusal = peer_frames.StreamRefused(queue, "stream-not-open", "not open here")
    pair.source.turn(LinkFrame(PEER, Frame(refusal, 0, memoryview(b""))))
    pair.source.advance(30.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"a"]


def test_what_was_delivered_before_its_queue_was_deleted_is_not_called_undeliverable(
    pair: Pair,  # noqa: F811
) -> None:
    """KB 290892: the order ack was lost, the message received; it is no dead letter."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"received", use_dead_letter_queue=True))
    pair.deliver(upto=5)
    assert bodies_at_destination(pair) == [b"received"]
    pair.cut()
    pair.destination.session().call(queue_frames.DeleteQueue("orders"))
    caller.send(queue, Message(body=b"late", use_dead_letter_queue=True))
    pair.source.advance(10.0)
    pair.deliver()
    assert dead(caller) == [(MessageClass.NACK_BAD_DST_Q, b"late")]


def test_no_time_runs_in_journals_and_dead_letter_queues(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    both = {"use_journal_queue": True, "use_dead_letter_queue": True, "time_to_be_received": 10.0}
    caller.send(queue, Message(body=b"received", **both))
    caller.receive(queue)
    caller.send(queue, Message(body=b"expired", **both))
    for _ in range(3):
        driver.advance(100.0)
        driver.crash()
    caller = driver.session()
    normal = MessageClass.NORMAL
    assert dead(caller, "orders;journal") == [(normal, b"received")]
    assert dead(caller, "system$;journal") == [(normal, b"received")]
    assert dead(caller) == [(MessageClass.NACK_RECEIVE_TIMEOUT, b"expired")]


def parts_dead(caller: Caller) -> list[MessageClass]:
    return [each for each, _ in dead(caller)]


def send_seven_parts(both: Pair) -> Caller:
    """Have a caller send a large message that comes to the destination."""
    caller = both.source.session()
    queue, transaction = caller.open(ADDRESS), caller.number_for()
    send_large(caller, queue, 5, transaction, use_dead_letter_queue=True)
    caller.commit(transaction, 3)
    both.deliver()
    return caller


def take_seven_parts(both: Pair) -> tuple[Caller, int, int, int]:
    """Take it there: the receiver, its queue, its transaction, and the id of the third part."""
    receiver = both.destination.session()
    orders, taking = receiver.open("orders"), receiver.number_for()
    found = take_large(receiver, orders, taking)
    return receiver, orders, taking, found.parts[2].lookup_id


def test_every_part_of_a_rejected_large_message_is_a_dead_letter_at_its_source(
    pair: Pair,  # noqa: F811
) -> None:
    """R87: the receiver rejects it by one of its parts."""
    caller = send_seven_parts(pair)
    receiver, orders, taking, part = take_seven_parts(pair)
    receiver.call(message_frames.Reject(orders, part, taking))
    receiver.commit(taking, 0)
    pair.deliver()
    assert parts_dead(caller) == [MessageClass.NACK_RECEIVE_REJECTED] * 7


def test_a_part_that_was_damaged_at_its_destination_is_a_dead_letter_at_its_source(
    pair: Pair,  # noqa: F811
) -> None:
    caller = send_seven_parts(pair)
    receiver, orders, _, part = take_seven_parts(pair)
    packed, _ = look_into(pair.destination.manager).state.queues.numbered(orders).index.held(part)
    extent = unpack(packed).extent
    path = pair.destination.path / "storage" / file_name(extent.file)
    with path.open("r+b") as file:
        file.seek(extent.offset + extent.length - 1)
        file.write(b"\xff")
    assert receiver.call(large_frames.PartDamaged(orders, part)) == frames.Done(1)
    pair.deliver()
    assert parts_dead(caller) == [MessageClass.NACK_RECEIVE_REJECTED]


def test_every_part_left_of_a_large_message_with_a_hole_is_a_dead_letter_at_its_source(
    pair: Pair,  # noqa: F811
) -> None:
    caller = pair.source.session()
    queue, transaction = caller.open(ADDRESS), caller.number_for()
    send_large(caller, queue, 5, transaction, use_dead_letter_queue=True)
    caller.commit(transaction, 3)
    pair.deliver()
    receiver = pair.destination.session()
    orders = receiver.open("orders")
    receiver.receive(orders, max_messages=3, guarded=False)
    with pytest.raises(errors.LargeMessageHole):
        take_large(receiver, orders, receiver.number_for())
    pair.deliver()
    assert parts_dead(caller) == [MessageClass.NACK_RECEIVE_REJECTED] * 4


def test_what_was_purged_while_held_does_not_come_back_after_a_crash(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"purged", use_dead_letter_queue=True))
    caller.receive(queue, transaction=transaction)
    caller.call(queue_frames.PurgeQueue(queue))
    driver.crash()
    caller = driver.session()
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(caller.open("orders"))
    assert dead(caller) == [(MessageClass.NACK_Q_PURGED, b"purged")]


def test_priorities_order_a_queue_of_another_manager_from_arrival_on(
    pair: Pair,  # noqa: F811
) -> None:
    receiver = pair.destination.session()
    plain = receiver.create("plain", transactional=False)
    caller = pair.source.session()
    queue = caller.open(ADDRESS.replace("orders", "plain"))
    for priority in (1, 7, 3, 7):
        caller.send(queue, Message(body=b"%d" % priority, priority=priority))
    pair.deliver()
    assert receiver.receive(plain)[1] == [b"7", b"7", b"3", b"1"]


@pytest.mark.parametrize("name", [ADDRESS, "order_queue$"])
def test_nobody_takes_what_only_the_manager_may_take(driver: ManagerDriver, name: str) -> None:
    caller = driver.session()
    queue = caller.open(name)
    if name == ADDRESS:
        caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    for head in (
        message_frames.Receive(queue, 0, 0.0),
        message_frames.Settle(queue, 1 << 40, 0),
        message_frames.ReceiveTransaction(queue, caller.number_for(), 0.0),
    ):
        with pytest.raises(errors.AccessDenied):
            caller.call(head)
    assert caller.call(queue_frames.DescribeQueue(name)).info.message_count == 2 * (name == ADDRESS)


def test_what_may_have_arrived_is_not_purged_from_its_outgoing_queue(
    pair: Pair,  # noqa: F811
) -> None:
    """Else a message that was received would be a dead letter too."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"received", use_dead_letter_queue=True))
    pair.deliver(upto=5)
    assert bodies_at_destination(pair) == [b"received"]
    caller.call(queue_frames.PurgeQueue(queue))
    pair.deliver()
    assert dead(caller) == []
    assert caller.call(queue_frames.DescribeQueue(ADDRESS)).info.message_count == 0


@pytest.mark.parametrize("number", [-1, 0, 1 << 63])
def test_a_number_out_of_bounds_begins_no_transaction(driver: ManagerDriver, number: int) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    (answer,) = caller.answers(caller.ask(large_frames.UploadBegin(queue, number, 100, b"")))
    assert answer.head.error == "invalid-argument"
    caller.driver.turn(SessionClosed(caller.number))
    assert not look_into(driver.manager).transactions


def test_whoever_calls_a_part_damaged_that_nobody_holds_changes_nothing(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.ask(message_frames.Reserve(queue, 0, 18))
    for lookup_id in (-1, 0, 1, 1 << 40):
        assert caller.call(large_frames.PartDamaged(queue, lookup_id)) == frames.Done(0)


def test_a_commit_tells_the_name_of_a_queue_that_was_deleted_as_long_as_it_is_remembered(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.queue.queues.DELETED_QUEUES_REMEMBERED", 2)
    caller = driver.session()
    transactions = []
    for name in ("first", "second", "third"):
        transactions.append(caller.number_for())
        caller.send(caller.create(name), Message(b"a"), transaction=transactions[-1])
        caller.call(queue_frames.DeleteQueue(name))
    for transaction, told in zip(transactions, ("a queue", "the queue 'second'"), strict=False):
        with pytest.raises(errors.TransactionAborted, match=f"^{told} that the transaction sent"):
            caller.commit(transaction, 1)
