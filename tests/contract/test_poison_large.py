"""Promises about large messages that cannot be handled, and about receivers that go on."""

from __future__ import annotations

import threading
import time

import pytest

import dray
from dray import Fate
from tests.contract.test_large_unreadable import newer

BODY = b"large" * 1_000


@pytest.fixture
def large(face, manager, queue):
    manager.create_queue("statusq", exist_ok=True)
    return face.LargeMessageQueue(queue, fragment_size=1_000)


def name_of(large):
    """The name of its queue, from what it says of itself."""
    return repr(large).strip("<>").split()[-1]


def labels(face, manager, name):
    """The labels of the large messages in a queue; they are taken."""
    large, found = face.LargeMessageQueue(manager.queue(name)), []
    while True:
        try:
            with large.receive(0) as message:
                assert message.body() == BODY
                found.append(message.label)
        except dray.ReceiveTimeout:
            return found


def fail(message, transaction):
    raise ValueError(f"cannot handle {message.label!r}")


def ignore(message, transaction):
    """Handle it by doing nothing."""


def test_a_handler_reads_a_large_message_and_receives_it_with_what_it_sent(
    face, queue, large, make_queue
):
    answers = make_queue()
    large.send(BODY, label="question")

    def answer(message, transaction):
        answers.send(message.body()[:5], transaction=transaction)

    handled = face.Receiver(large).handle_next(answer, 10)
    assert (handled.message.label, handled.fate, handled.error) == ("question", Fate.DONE, None)
    assert [message.body for message in answers.messages()] == [b"large"]
    assert queue.info().message_count == 0


@pytest.mark.parametrize("retry_delay", [0, 0.001])
@pytest.mark.parametrize("then", ["reject", "move", "drop"])
def test_after_its_retries_a_large_message_is_rejected_moved_or_dropped(
    face, manager, large, make_queue, *, then, retry_delay
):
    answers = make_queue()
    large.send(
        BODY,
        label="poison",
        administration_queue=answers.name,
        acknowledge=dray.Acknowledge.NEGATIVE_RECEIVE,
    )
    receiver = face.Receiver(large, retries=2, retry_delay=retry_delay, then=then)
    fates = [receiver.handle_next(fail, 10).fate for _ in range(3)]
    last = {"reject": Fate.REJECTED, "move": Fate.MOVED, "drop": Fate.DROPPED}[then]
    assert fates == [Fate.RETRIED, Fate.RETRIED, last]
    queue = manager.queue(name_of(large))
    assert queue.info().message_count == 0
    assert manager.queue(f"{queue.name};retry").info().message_count == 0
    moved = ["poison"] if then == "move" else []
    assert labels(face, manager, f"{queue.name};poison") == moved
    if then == "reject":
        assert answers.receive(10).message_class is dray.MessageClass.NACK_RECEIVE_REJECTED


def test_while_a_large_message_waits_to_be_tried_again_others_pass_it(face, manager, queue, large):
    large.send(BODY, label="poison")
    large.send(BODY, label="good")
    receiver = face.Receiver(large, retry_delay=60)
    assert receiver.handle_next(fail, 10).fate is Fate.RETRIED
    handled = receiver.handle_next(ignore, 10)
    assert (handled.message.label, handled.fate) == ("good", Fate.DONE)
    with pytest.raises(dray.ReceiveTimeout):
        receiver.handle_next(fail, 0)
    assert labels(face, manager, f"{queue.name};retry") == ["poison"]


def test_a_large_message_that_waits_since_before_the_receiver_began_is_tried_again(face, large):
    large.send(BODY, label="left")
    assert face.Receiver(large, retry_delay=60).handle_next(fail, 10).fate is Fate.RETRIED
    began = time.monotonic()
    handled = face.Receiver(large, retry_delay=0.05).handle_next(ignore, 10)
    assert (handled.message.label, handled.fate) == ("left", Fate.DONE)
    assert time.monotonic() - began >= 0.045


def test_how_often_a_large_message_was_tried_outlives_the_receiver(face, large):
    large.send(BODY)
    fates = [
        face.Receiver(large, retries=2, then="drop").handle_next(fail, 10).fate for _ in range(3)
    ]
    assert fates == [Fate.RETRIED, Fate.RETRIED, Fate.DROPPED]


@pytest.mark.parametrize("then", ["reject", "move", "drop"])
def test_a_large_message_that_another_reader_took_in_between_is_left_to_it(
    face, queue, large, then
):
    large.send(BODY, label="fought for")

    def lose(message, transaction):
        transaction.abort()
        with large.receive(10):
            pass
        fail(message, transaction)

    assert face.Receiver(large, retries=0, then=then).handle_next(lose, 10).fate is Fate.RETRIED
    assert queue.info().message_count == 0


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "large"])
def test_workers_handle_each_message_once_until_they_are_told_to_stop(
    face, queue, large, *, kind, workers
):
    for number in range(12):
        (queue if kind == "plain" else large).send(BODY, label=str(number))
    stop, seen, at_once = threading.Event(), [], []

    def handle(message, transaction):
        at_once.append(threading.get_ident())
        seen.append(message.label)
        if len(seen) == 12:
            stop.set()

    reports = []
    receiver = face.Receiver(queue if kind == "plain" else large, workers=workers)
    assert receiver.run(handle, stop, report=reports.append) == 12
    assert sorted(seen, key=int) == [str(number) for number in range(12)]
    assert [each.fate for each in reports] == [Fate.DONE] * 12
    assert queue.info().message_count == 0


def test_an_error_of_one_worker_ends_the_others_and_is_raised(face, queue):
    queue.send(b"good")

    def lose(message, transaction):
        raise dray.ConnectionLost("the other end is gone")

    with pytest.raises(dray.ConnectionLost):
        face.Receiver(queue, workers=3, reconnect=False).run(lose, threading.Event())
    assert [message.body for message in queue.messages()] == [b"good"]


def test_a_large_message_that_cannot_be_read_is_moved_aside_and_ends_no_run(
    face, manager, large, caplog
):
    with newer():
        large.send(BODY, label="of the future")
    large.send(BODY, label="good")
    stop, seen = threading.Event(), []

    def handle(message, transaction):
        seen.append(message.label)
        stop.set()

    assert face.Receiver(large).run(handle, stop) == 1
    assert seen == ["good"]
    assert "cannot be read" in caplog.text
    assert manager.queue(f"{name_of(large)};unreadable").info().message_count == 7


def test_a_full_disk_of_a_handler_is_raised_and_costs_the_message_no_fate(face, queue):
    queue.send(b"good")

    def full(message, transaction):
        raise dray.TargetUnwritable("no room", path="x", retryable=True)

    with pytest.raises(dray.TargetUnwritable):
        face.Receiver(queue, retries=0, then="drop", reconnect=False).handle_next(full, 10)
    assert [message.body for message in queue.messages()] == [b"good"]
