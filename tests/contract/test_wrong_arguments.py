"""What makes no sense is refused in one sentence, before anything is sent; the connection stays."""

from __future__ import annotations

import pytest

import dray

OF_A_QUEUE = {
    "a body that is no bytes": (TypeError, lambda queue: queue.send(5)),
    "no body": (TypeError, lambda queue: queue.send(None)),
    "texts": (TypeError, lambda queue: queue.send_many(["a", "b"])),
    "a label that is no text": (dray.Misuse, lambda queue: queue.send(b"", label=5)),
    "a priority that is no number": (dray.Misuse, lambda queue: queue.send(b"", priority="high")),
    "a number that is a text": (dray.Misuse, lambda queue: queue.send(b"", app_specific="5")),
    "a queue for acknowledgments that is none": (
        dray.InvalidQueueName,
        lambda queue: queue.send(b"", administration_queue="dray://host:port/acks"),
    ),
    "a blank queue for acknowledgments": (
        dray.InvalidQueueName,
        lambda queue: queue.send(b"", administration_queue=" "),
    ),
    "a timeout below zero": (dray.Misuse, lambda queue: queue.receive(-1)),
    "a timeout that is a text": (dray.Misuse, lambda queue: queue.receive("1")),
    "a timeout that is true": (dray.Misuse, lambda queue: queue.peek(True)),
    "a count that is a text": (dray.Misuse, lambda queue: queue.receive_many("3", timeout=0)),
    "a count that is a fraction": (dray.Misuse, lambda queue: queue.receive_many(1.5, timeout=0)),
    "an id that is a number": (dray.Misuse, lambda queue: queue.receive_by_id(7)),
    "a position that is a text": (dray.Misuse, lambda queue: queue.receive_by_lookup_id("7")),
    "a transaction that is a text": (dray.Misuse, lambda queue: queue.send(b"", transaction="x")),
    "a batch in a text": (dray.Misuse, lambda queue: queue.send_many([b""], transaction="x")),
    "a receive in a text": (dray.Misuse, lambda queue: queue.receive(0, "x")),
    "a transaction that is a queue": (dray.Misuse, lambda queue: queue.receive(0, queue)),
    "a position to settle that is a text": (dray.Misuse, lambda queue: queue.settle("7")),
}
OF_A_MANAGER = {
    "a blank name": (dray.InvalidQueueName, lambda manager: manager.create_queue(" ")),
    "a name with a blank at its end": (
        dray.InvalidQueueName,
        lambda manager: manager.queue("orders "),
    ),
    "a name that is a number": (dray.InvalidQueueName, lambda manager: manager.queue(5)),
    "a label of a queue that is no text": (
        dray.Misuse,
        lambda manager: manager.create_queue("x", label=5),
    ),
    "a truth that is a text": (
        dray.Misuse,
        lambda manager: manager.create_queue("x", transactional="yes"),
    ),
    "an outcome of a number": (dray.Misuse, lambda manager: manager.outcome(5)),
}


@pytest.mark.parametrize("name", [*OF_A_QUEUE, *OF_A_MANAGER])
def test_an_argument_that_makes_no_sense_is_refused_and_costs_nothing(manager, queue, name):
    error, call = OF_A_QUEUE.get(name) or OF_A_MANAGER[name]
    of = queue if name in OF_A_QUEUE else manager
    queue.send(b"before")
    with pytest.raises(error) as caught:
        call(of)
    assert "\n" not in str(caught.value)
    with manager.transaction() as transaction:
        # The transaction goes over the same connection, which the refusal has not ended.
        assert queue.receive(0, transaction).body == b"before"
        with pytest.raises(error):
            call(of)
    assert queue.info().message_count == 0


@pytest.mark.parametrize("given", ["x", 5, b""])
def test_what_is_no_transaction_is_refused_for_large_messages_too(large, given):
    with pytest.raises(dray.Misuse, match="transaction is what"):
        large.send(b"body", transaction=given)
    with pytest.raises(dray.Misuse, match="transaction is what"), large.receive(0, given):
        pass
    with pytest.raises(dray.ReceiveTimeout), large.receive(0):
        pass
