"""Acknowledgments, dead letters, expiry, confirmations: R11, R12, R40, R50 to R57, S4-3."""

from __future__ import annotations

import pytest

from dray import errors
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from dray.wire.record import read_header, read_properties
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair, pair  # noqa: F401 - a fixture
from tests.unit.manager.requests.test_large_messages import send_large

Classes = list[MessageClass]


def acknowledged(caller: Caller, name: str = "acks") -> list[tuple[MessageClass, str | None]]:
    """Class and correlation id of every acknowledgment message."""
    queue = caller.open(name)
    try:
        head, body = caller.call_whole(message_frames.Receive(queue, 0, 0.0, 100))
    except errors.ReceiveTimeout:
        return []
    found, at = [], 0
    for envelope in head.envelopes:
        header = read_header(body, at)
        properties = read_properties(body, header, at)
        found.append((MessageClass(envelope.message_class), properties.correlation_id))
        at += envelope.length
    return found


def dead(caller: Caller, name: str = "system$;deadxact") -> list[tuple[MessageClass, bytes]]:
    envelopes, bodies = caller.what_is_in(name, peek=True)
    classes = [MessageClass(envelope.message_class) for envelope in envelopes]
    return list(zip(classes, bodies, strict=True))


def asking(body: bytes, acknowledge: Acknowledge, **options: object) -> Message:
    return Message(body=body, acknowledge=acknowledge, administration_queue="acks", **options)


def test_arrival_and_receive_are_acknowledged_as_asked(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("orders")
    both = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE
    (number, _) = caller.send(queue, asking(b"a", both), Message(body=b"silent"))
    original = f"{driver.manager_id}\\{number}"
    assert acknowledged(caller) == [(MessageClass.ACK_REACH_QUEUE, original)]
    caller.receive(queue)
    assert acknowledged(caller) == [(MessageClass.ACK_RECEIVE, original)]


def test_a_receive_in_a_transaction_is_acknowledged_at_its_commit(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("acks")
    queue, transaction = caller.create("orders"), caller.number_for()
    (number,) = caller.send(queue, asking(b"a", Acknowledge.POSITIVE_RECEIVE))
    caller.receive(queue, transaction=transaction)
    assert acknowledged(caller) == []
    caller.commit(transaction, 0)
    assert acknowledged(caller) == [(MessageClass.ACK_RECEIVE, f"{driver.manager_id}\\{number}")]


def test_an_aborted_receive_is_neither_acknowledged_nor_dead_lettered(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", Acknowledge.FULL_RECEIVE, use_dead_letter_queue=True))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.call(message_frames.Abort(transaction))
    assert acknowledged(caller) == []
    assert dead(caller) == []


def test_every_message_expires_on_its_own(driver: ManagerDriver) -> None:
    """S4-3: one transaction, three lifetimes."""
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    incarnations = [Message(body=b"1", time_to_be_received=5.0), Message(body=b"2")]
    incarnations.append(Message(body=b"3", time_to_be_received=1.0, use_dead_letter_queue=True))
    caller.send(queue, *incarnations, transaction=transaction)
    caller.commit(transaction, 1)
    assert driver.manager.deadline() <= driver.now + 1.0
    driver.advance(1.1)
    assert dead(caller) == [(MessageClass.NACK_RECEIVE_TIMEOUT, b"3")]
    driver.crash()
    driver.advance(5.0)
    caller = driver.session()
    assert caller.receive(caller.open("orders"))[1] == [b"2"]


def test_expiry_of_a_held_message_waits_for_the_outcome(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for body in (b"received", b"expired"):
        caller.send(queue, Message(body=body, time_to_be_received=1.0))
    first, second = caller.number_for(), caller.number_for()
    caller.receive(queue, transaction=first, max_messages=1)
    caller.receive(queue, transaction=second, max_messages=1)
    driver.advance(10.0)
    caller.commit(first, 0)
    caller.call(message_frames.Abort(second))
    driver.advance(0.0)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    assert driver.store.live_bytes == 0


def test_what_cannot_reach_its_queue_in_time_is_dead_lettered_at_the_source(
    pair: Pair,  # noqa: F811
) -> None:
    caller = pair.source.session()
    caller.create("acks")
    queue = caller.open(ADDRESS)
    options = {"time_to_reach_queue": 5.0, "use_dead_letter_queue": True}
    caller.send(queue, asking(b"late", Acknowledge.FULL_REACH_QUEUE, **options), Message(body=b"x"))
    pair.source.effects.clear()
    pair.source.advance(6.0)
    assert dead(caller) == [(MessageClass.NACK_REACH_QUEUE_TIMEOUT, b"late")]
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]


def test_the_source_is_told_what_became_of_its_messages(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    caller.create("acks")
    queue = caller.open(ADDRESS)
    wanted = {"use_dead_letter_queue": True, "use_journal_queue": True}
    for body in (b"received", b"rejected", b"purged"):
        caller.send(queue, asking(body, Acknowledge.FULL_RECEIVE, **wanted))
    pair.deliver()
    assert acknowledged(caller) == []
    receiver = pair.destination.session()
    orders = receiver.open("orders")
    receiver.receive(orders, max_messages=1)
    transaction = receiver.number_for()
    envelopes, _ = receiver.receive(orders, transaction=transaction, max_messages=1)
    receiver.call(message_frames.Reject(orders, envelopes[0].lookup_id, transaction))
    receiver.commit(transaction, 0)
    receiver.call(queue_frames.PurgeQueue(orders))
    pair.destination.crash()
    pair.cut()
    pair.source.advance(10.0)
    caller.send(queue, Message(body=b"wakes the link"))
    pair.deliver()
    rejected, purged = MessageClass.NACK_RECEIVE_REJECTED, MessageClass.NACK_Q_PURGED
    assert [each for each, _ in acknowledged(caller)] == [
        MessageClass.ACK_RECEIVE,
        rejected,
        purged,
    ]
    assert dead(caller) == [(rejected, b"rejected"), (purged, b"purged")]
    assert dead(caller, "system$;journal") == [(MessageClass.NORMAL, b"received")]
    pair.source.crash()
    caller = pair.source.session()
    assert dead(caller) == [(rejected, b"rejected"), (purged, b"purged")]
    pair.source.advance(10.0)
    pair.deliver()
    assert acknowledged(caller) == []


def test_what_its_destination_made_a_dead_letter_may_be_sent_there_once_more(
    pair: Pair,  # noqa: F811
) -> None:
    caller = pair.source.session()
    for name in (ADDRESS, "dray://127.0.0.1:7340/missing"):
        caller.send(caller.open(name), Message(body=b"x", use_dead_letter_queue=True))
    pair.deliver()
    receiver = pair.destination.session()
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))
    pair.deliver()
    why = {MessageClass.NACK_BAD_DST_Q, MessageClass.NACK_Q_PURGED}
    assert {each for each, _ in dead(caller)} == why
    letters = caller.open("system$;deadxact")
    found = [each.lookup_id for each in caller.receive(letters, peek=True)[0]]
    number, queue = caller.number_for(), caller.open(ADDRESS)
    caller.call(message_frames.MoveMessages(letters, found, queue, number))
    pair.deliver()
    assert receiver.receive(receiver.open("orders"))[1] == [b"x", b"x"]


def test_no_word_in_time_puts_a_delivered_message_in_doubt(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    doubtful = Message(body=b"?", use_dead_letter_queue=True, time_to_be_received=60.0)
    caller.send(caller.open(ADDRESS), doubtful)
    pair.deliver()
    pair.cut()
    pair.source.advance(61.0)
    in_doubt = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    assert dead(pair.source.session()) == [(in_doubt, b"?")]


def test_word_that_comes_after_the_doubt_denies_no_dead_letter(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    doubtful = Message(body=b"?", use_dead_letter_queue=True, time_to_be_received=60.0)
    caller.send(caller.open(ADDRESS), doubtful)
    pair.deliver()
    pair.cut()
    for driver in (pair.source, pair.destination):
        driver.advance(61.0)
    pair.deliver()
    first, second = pair.source.manager.notices()
    assert (first.kind, second.kind) == ("ended-in-doubt", "ended-expired")
    assert "it is kept as a dead letter in 'system$;deadxact'" in str(first)
    assert "it is not kept as a dead letter, unless an earlier warning said so" in str(second)


def test_what_expires_at_its_destination_is_no_doubt_while_that_can_be_heard(
    pair: Pair,  # noqa: F811
) -> None:
    """It expires here first, by the time of its way; the definite word is worth the wait."""
    caller = pair.source.session()
    timed = Message(body=b"!", use_dead_letter_queue=True, time_to_be_received=60.0)
    caller.send(caller.open(ADDRESS), timed)
    pair.deliver()
    pair.source.advance(60.1)
    assert dead(pair.source.session()) == []
    pair.destination.advance(60.5)
    pair.deliver()
    assert dead(pair.source.session()) == [(MessageClass.NACK_RECEIVE_TIMEOUT, b"!")]


def test_a_destination_that_says_nothing_is_not_waited_for_for_ever(
    pair: Pair,  # noqa: F811
) -> None:
    caller = pair.source.session()
    timed = Message(body=b"?", use_dead_letter_queue=True, time_to_be_received=60.0)
    caller.send(caller.open(ADDRESS), timed)
    pair.deliver()
    for _ in range(12):
        assert dead(pair.source.session()) == []
        pair.source.advance(6.0)
    in_doubt = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    assert dead(pair.source.session()) == [(in_doubt, b"?")]


def test_clocks_need_not_agree_for_messages_to_expire_on_time(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    pair.destination.now += 86_400.0
    caller.send(caller.open(ADDRESS), Message(body=b"a", time_to_be_received=60.0))
    pair.deliver()
    pair.destination.advance(59.0)
    receiver = pair.destination.session()
    orders = receiver.open("orders")
    assert receiver.receive(orders, peek=True)[1] == [b"a"]
    pair.destination.advance(2.0)
    with pytest.raises(errors.ReceiveTimeout):
        receiver.receive(orders)


def test_a_purge_of_a_held_message_waits_for_the_outcome(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"held", use_dead_letter_queue=True))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.call(queue_frames.PurgeQueue(queue))
    caller.call(message_frames.Abort(transaction))
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    assert dead(caller) == [(MessageClass.NACK_Q_PURGED, b"held")]


def test_a_held_message_that_is_purged_is_delivered_if_its_transaction_commits(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, asking(b"held", Acknowledge.FULL_RECEIVE, use_dead_letter_queue=True))
    caller.receive(queue, transaction=transaction)
    caller.call(queue_frames.PurgeQueue(queue))
    caller.commit(transaction, 0)
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.ACK_RECEIVE]
    assert dead(caller) == []


def test_a_purge_of_one_message_leaves_all_others_and_tells_its_sender_alone(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    away = "dray://127.0.0.1:1/orders"
    for name in ("orders", away):
        queue = caller.open(name) if name == away else caller.create(name)
        for body in (b"before", b"chosen", b"behind"):
            transaction = caller.number_for()
            message = Message(body=body, use_dead_letter_queue=True)
            sent = caller.send(queue, message, transaction=transaction)
            if body == b"chosen":
                chosen = id_of(driver, sent[0])
            caller.commit(transaction, 1)
        removed = caller.call(queue_frames.PurgeQueue(queue, chosen, 2))
        assert removed.count == 1
        with pytest.raises(errors.MessageNotFound, match="nothing of message"):
            caller.call(queue_frames.PurgeQueue(queue, chosen, 1))
        assert caller.receive(queue, peek=True)[1] == [b"before", b"behind"]
        assert caller.call(queue_frames.DescribeQueue(name)).info.message_count == 2
    purged = [(MessageClass.NACK_Q_PURGED, b"chosen"), (MessageClass.NACK_PURGED, b"chosen")]
    assert dead(caller) == purged


def test_a_purge_of_one_large_message_takes_its_parts_and_no_other(driver: ManagerDriver) -> None:
    caller = driver.session()
    away = "dray://127.0.0.1:1/orders"
    for name in ("orders", away):
        queue = caller.open(name) if name == away else caller.create(name)
        transaction = caller.number_for()
        first = send_large(caller, queue, 2, transaction)
        caller.send(queue, Message(body=b"between"), transaction=transaction, guarded=False)
        second = send_large(caller, queue, 3, transaction)
        caller.commit(transaction, 7)
        removed = caller.call(queue_frames.PurgeQueue(queue, id_of(driver, second), 1))
        assert removed.count == 5
        removed = caller.call(queue_frames.PurgeQueue(queue, id_of(driver, first), 2))
        assert removed.count == (3 if name == away else 4), "from its second part on"
        driver.crash()
        caller = driver.session()
        left = caller.call(queue_frames.DescribeQueue(name)).info.message_count
        assert left == (2 if name == away else 1)


def test_what_is_told_of_a_part_has_the_label_and_the_id_of_its_large_message(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue, transaction = caller.create("orders"), caller.number_for()
    asked = asking(b"", Acknowledge.NEGATIVE_RECEIVE, label="plan.part.1")
    options = {name: getattr(asked, name) for name in ("acknowledge", "administration_queue")}
    sequence = send_large(caller, queue, 1, transaction, label="plan.part.1", **options)
    caller.commit(transaction, 3)
    caller.call(queue_frames.PurgeQueue(queue))
    head, body = caller.call_whole(message_frames.Receive(caller.open("acks"), 0, 0.0, 10))
    told, at = [], 0
    for envelope in head.envelopes:
        properties = read_properties(body, read_header(body, at), at)
        told.append((properties.label, properties.correlation_id))
        at += envelope.length
    whole = id_of(driver, sequence)
    assert told == [("plan.part.1", whole), ("plan", whole), ("plan", whole)]


def id_of(driver: ManagerDriver, number: int) -> str:
    return f"{driver.manager_id}\\{number}"


def test_deleting_a_queue_tells_the_senders_of_what_was_in_it(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("orders")
    caller.send(queue, asking(b"a", Acknowledge.NEGATIVE_RECEIVE, use_dead_letter_queue=True))
    caller.call(queue_frames.DeleteQueue("orders"))
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_Q_DELETED]
    assert dead(caller) == [(MessageClass.NACK_Q_DELETED, b"a")]


def test_a_queue_that_is_not_transactional_keeps_its_own_dead_letters(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("plain", transactional=False)
    short = Message(body=b"a", use_dead_letter_queue=True, time_to_be_received=1.0)
    caller.send(queue, short)
    driver.advance(2.0)
    expected = [(MessageClass.NACK_RECEIVE_TIMEOUT, b"a")]
    assert dead(caller, "system$;deadletter") == expected
    assert dead(caller) == []
