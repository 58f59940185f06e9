"""Settling a planned range, without Spark: what leaves a queue, and what stays."""

from __future__ import annotations

import shutil
import time
from functools import partial

import pytest

import dray
from dray.errors import QueueRecreated
from dray.spark.settle_batches import _settle_large, _settle_messages
from dray.spark.source.offsets import QueueSpan
from dray.spark.source.planned import PlannedSpan
from dray.spark.source.ranges import measure

pytestmark = pytest.mark.spark


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "manager", listen="127.0.0.1:0", open=True) as opened:
        yield opened


@pytest.fixture
def orders(manager):
    """A small message, a large one, and a small one."""
    large = dray.LargeMessageQueue(manager.create_queue("orders"))
    raw = manager.queue("orders", raw=True)
    raw.send(b"1")
    large.send(b"large")
    raw.send(b"2")
    return raw


def planned_of(manager, queue):
    """All that is in the queue, as a query plans it."""
    last = max(message.lookup_id for message in queue.messages())
    span = QueueSpan(manager.info().id, queue.name, queue.info().born, 0, last)
    return PlannedSpan(span, measure(queue, 0).receipt)


def test_a_receiver_of_a_large_message_does_not_keep_small_ones_from_being_settled(
    manager, orders, monkeypatch
):
    """The large message stays there in any case."""
    planned = planned_of(manager, orders)
    large = dray.LargeMessageQueue(manager.queue("orders"))

    def wait(_seconds):
        raise AssertionError("it waits for the receiver")

    monkeypatch.setattr(time, "sleep", wait)
    transaction = manager.transaction()
    with large.receive(transaction=transaction, timeout=0):
        _settle_messages(orders, planned, 60)
    transaction.abort()

    info = orders.info()
    assert info.large_count == 1
    assert not [each for each in orders.messages() if bytes(each.body) in (b"1", b"2")]


@pytest.mark.parametrize("settle", [_settle_messages, partial(_settle_large, None)])
def test_a_store_that_is_put_back_before_its_batch_is_settled_keeps_its_new_messages(
    tmp_path, settle
):
    """The copy gives the positions of the batch to other messages, and nobody else has noticed."""
    with dray.open(tmp_path / "manager") as manager:
        manager.create_queue("orders")
    shutil.copytree(tmp_path / "manager", tmp_path / "copy")
    with dray.open(tmp_path / "manager") as manager:
        send_both(manager, b"old")
        planned = planned_of(manager, manager.queue("orders", raw=True))
    with dray.open(tmp_path / "copy") as manager:
        send_both(manager, b"new")
        orders = manager.queue("orders", raw=True)
        count = orders.info().message_count
        with pytest.raises(QueueRecreated):
            settle(orders, planned, 60)
        assert orders.info().message_count == count


def send_both(manager, body):
    manager.queue("orders", raw=True).send(body)
    dray.LargeMessageQueue(manager.queue("orders")).send(body)
