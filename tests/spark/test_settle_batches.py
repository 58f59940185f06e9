"""Settling a planned range, without Spark: what leaves a queue, and what stays."""

from __future__ import annotations

import time

import pytest

import dray
from dray.spark.settle_batches import _settle_messages
from dray.spark.source.offsets import QueueSpan

pytestmark = pytest.mark.spark


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "manager", listen="127.0.0.1:0", open=True) as opened:
        yield opened


@pytest.fixture
def orders(manager):
    """A small message, a large one, and a small one."""
    queue, large = manager.create_queue("orders"), dray.LargeMessageQueue(manager.queue("orders"))
    raw = manager.queue("orders", raw=True)
    raw.send(b"1")
    large.send(b"large")
    raw.send(b"2")
    return raw


def span_of(manager, queue):
    last = max(message.lookup_id for message in queue.messages())
    return QueueSpan(manager.info().id, queue.name, queue.info().born, 0, last)


def test_a_receiver_of_a_large_message_does_not_keep_small_ones_from_being_settled(
    manager, orders, monkeypatch
):
    """The large message stays there in any case."""
    span = span_of(manager, orders)
    large = dray.LargeMessageQueue(manager.queue("orders"))

    def wait(_seconds):
        raise AssertionError("it waits for the receiver")

    monkeypatch.setattr(time, "sleep", wait)
    transaction = manager.transaction()
    with large.receive(transaction=transaction, timeout=0):
        _settle_messages(orders, span, 60)
    transaction.abort()

    info = orders.info()
    assert info.large_count == 1
    assert not [each for each in orders.messages() if bytes(each.body) in (b"1", b"2")]
