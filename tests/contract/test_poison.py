"""Promises about messages that cannot be handled."""

from __future__ import annotations

import functools
import threading
import time

import pytest

import dray
from dray import Fate


def bodies(queue):
    return [message.body for message in queue.messages()]


def fail(message, transaction):
    raise ValueError(f"cannot handle {message.body!r}")


def ignore(message, transaction):
    """Handle it by doing nothing."""


def test_a_handled_message_is_received_with_what_its_handler_sent(face, queue, make_queue):
    answers = make_queue()
    queue.send(b"question")

    def answer(message, transaction):
        answers.send(b"answer", transaction=transaction)

    handled = face.Receiver(queue).handle_next(answer, 0)
    assert (handled.message.body, handled.fate, handled.error) == (b"question", Fate.DONE, None)
    assert (bodies(queue), bodies(answers)) == ([], [b"answer"])


def test_what_a_failing_handler_did_never_happened(face, queue, make_queue):
    answers = make_queue()
    queue.send(b"question")

    def answer_and_fail(message, transaction):
        answers.send(b"answer", transaction=transaction)
        fail(message, transaction)

    handled = face.Receiver(queue).handle_next(answer_and_fail, 0)
    assert handled.fate is Fate.RETRIED
    assert isinstance(handled.error, ValueError)
    assert (bodies(queue), bodies(answers)) == ([b"question"], [])


def test_every_sort_of_function_that_takes_both_is_a_handler(face, queue):
    class Called:
        def method(self, message, transaction=None):
            """Handle it."""

        def __call__(self, *anything):
            """Handle it."""

    receiver = face.Receiver(queue)
    for handler in (ignore, print, Called(), Called().method, functools.partial(ignore)):
        queue.send(b"handled")
        assert receiver.handle_next(handler, 0).error is None
    assert bodies(queue) == []


@pytest.mark.parametrize("retry_delay", [0, 0.001])
@pytest.mark.parametrize("then", ["reject", "move", "drop"])
def test_after_its_retries_a_message_is_rejected_moved_or_dropped(
    face, manager, make_queue, *, then, retry_delay
):
    queue, answers = make_queue(), make_queue()
    told = {
        "administration_queue": answers.name,
        "acknowledge": dray.Acknowledge.NEGATIVE_RECEIVE,
    }
    queue.send(b"poison", **told)
    receiver = face.Receiver(queue, retries=2, retry_delay=retry_delay, then=then)
    fates = [receiver.handle_next(fail, 10).fate for _ in range(3)]
    last = {"reject": Fate.REJECTED, "move": Fate.MOVED, "drop": Fate.DROPPED}[then]
    assert fates == [Fate.RETRIED, Fate.RETRIED, last]
    assert bodies(queue) == []
    assert bodies(manager.queue(f"{queue.name};retry")) == []
    moved = [b"poison"] if then == "move" else []
    assert bodies(manager.queue(f"{queue.name};poison")) == moved
    if then == "reject":
        assert answers.receive(10).message_class is dray.MessageClass.NACK_RECEIVE_REJECTED


def test_while_a_message_waits_to_be_tried_again_others_pass_it(face, manager, queue):
    queue.send_many([b"poison", b"good"])
    receiver = face.Receiver(queue, retry_delay=60)
    assert receiver.handle_next(fail, 0).fate is Fate.RETRIED
    handled = receiver.handle_next(ignore, 0)
    assert (handled.message.body, handled.fate) == (b"good", Fate.DONE)
    assert bodies(manager.queue(f"{queue.name};retry")) == [b"poison"]
    with pytest.raises(dray.ReceiveTimeout):
        receiver.handle_next(fail, 0)


@pytest.mark.parametrize("retry_delay", [0, 0.001])
def test_how_often_a_message_was_tried_outlives_the_receiver(face, queue, retry_delay):
    queue.send(b"poison")
    fates = [
        face.Receiver(queue, retries=2, retry_delay=retry_delay, then="drop")
        .handle_next(fail, 10)
        .fate
        for _ in range(3)
    ]
    assert fates == [Fate.RETRIED, Fate.RETRIED, Fate.DROPPED]


def test_what_waits_since_before_the_receiver_began_is_tried_again(face, manager, queue):
    queue.send(b"left")
    queue.move(queue.peek(0), f"{queue.name};retry")
    receiver = face.Receiver(queue, retry_delay=0.05)
    began = time.monotonic()
    handled = receiver.handle_next(ignore, 10)
    assert (handled.message.body, handled.fate) == (b"left", Fate.DONE)
    assert time.monotonic() - began >= 0.045


def test_an_error_that_is_not_the_messages_fault_is_raised_and_the_message_stays(face, queue):
    queue.send(b"good")

    def lose(message, transaction):
        raise dray.ConnectionLost("the other end is gone")

    with pytest.raises(dray.ConnectionLost):
        face.Receiver(queue, retries=0, then="drop", reconnect=False).handle_next(lose, 0)
    assert bodies(queue) == [b"good"]


@pytest.mark.parametrize("options", [{"retries": -1}, {"retry_delay": -1}, {"then": "explode"}])
def test_a_policy_that_is_none_is_refused(face, queue, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        face.Receiver(queue, **options)


def test_what_a_handler_has_committed_itself_is_done_whatever_it_raises_then(face, queue):
    queue.send(b"good")

    def commit_and_fail(message, transaction):
        transaction.commit()
        fail(message, transaction)

    handled = face.Receiver(queue, retries=0, then="drop").handle_next(commit_and_fail, 0)
    assert (handled.fate, type(handled.error)) == (Fate.DONE, ValueError)
    assert bodies(queue) == []


@pytest.mark.parametrize("then", ["reject", "move", "drop"])
def test_what_another_reader_took_in_between_is_left_to_it(face, queue, then):
    queue.send(b"fought for")

    def lose(message, transaction):
        transaction.abort()
        queue.receive(0)
        fail(message, transaction)

    assert face.Receiver(queue, retries=0, then=then).handle_next(lose, 0).fate is Fate.RETRIED


def test_a_receiver_does_not_wait_for_a_queue_manager_that_its_program_has_closed(face, tmp_path):
    with face.open(tmp_path / "data") as manager:
        receiver = face.Receiver(manager.create_queue("orders"))
    with pytest.raises(dray.ConnectionLost, match="closed with close"):
        receiver.handle_next(fail, 60)
    with pytest.raises(dray.ConnectionLost, match="closed with close"):
        receiver.run(fail, threading.Event())


@pytest.mark.parametrize("poison", ["", "a;b", " blank", "x" * 33, "retry", "Journal", 5])
def test_a_name_that_no_poison_queue_can_have_is_refused_before_a_message_fails(
    face, queue, poison
):
    """It would be needed only after the retries, and then the message would block its queue."""
    with pytest.raises(dray.InvalidArgument, match="poison is the name of a sub-queue") as raised:
        face.Receiver(queue, then="move", poison=poison)
    assert raised.value.argument == "poison"
