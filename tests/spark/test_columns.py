"""Columns of a range of messages: the same as the messages say, and nothing that is damaged."""

from __future__ import annotations

import random

import pytest

import dray
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.errors import ProtocolError
from dray.spark.source.columns import MessageColumns
from dray.spark.source.offsets import QueuePlace
from dray.wire.message_frames import FOLLOWING_MAX
from dray.wire.range_frames import RANGE_ROW, RangeRead, ReadRange

PLACE = QueuePlace("dray://127.0.0.1:1", "a" * 32, "orders", 7)


@pytest.fixture
def orders(manager):
    return manager.create_queue("orders")


def read(queue, *, bodies=True, after=0):
    """The answer about a range, and its body."""
    _, frame = queue.handle.call(
        lambda number: ReadRange(number, after, 0, 10_000, 0, bodies),
        RangeRead,
        wait_s=ANSWER_GRACE_S,
    )
    return frame.head, bytes(frame.body)


def columns(queue, **options):
    head, body = read(queue, **options)
    whole = options.get("bodies", True)
    return MessageColumns(head, memoryview(body), whole=whole).batch(PLACE).to_pylist()


def some_messages(count):
    chance = random.Random(3)
    return [
        dray.Message(
            body=chance.randbytes(chance.choice((0, 1, 100, 3000))),
            label=chance.choice(("", "ö" * 9, "x" * 249)),
            correlation_id=chance.choice((None, "", "order 7")),
            app_specific=chance.choice((0, -5, 2**31 - 1)),
            use_journal_queue=chance.choice((False, True)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("sizes", [(1000,), (0,), (1000, 1001)], ids=str)
@pytest.mark.parametrize("labels", [("",), ("one",), ("one", "three")], ids=str)
def test_bodies_of_one_size_and_of_several_are_each_in_their_row(orders, sizes, labels):
    chance = random.Random(4)
    sent = [
        dray.Message(body=chance.randbytes(sizes[at % len(sizes)]), label=labels[at % len(labels)])
        for at in range(12)
    ]
    orders.send_many(sent)

    assert [row["body"] for row in columns(orders)] == [message.body for message in sent]


def test_columns_are_what_the_messages_say(manager, orders):
    with manager.transaction() as transaction:
        orders.send_many(some_messages(30), transaction=transaction)
    for message in some_messages(30):
        orders.send(message)

    rows = columns(orders)

    messages = list(orders.messages())
    assert len(rows) == len(messages) == 60
    names = [
        "lookup_id", "id", "label", "body", "priority", "app_specific", "correlation_id",
        "transaction_id", "source", "first_in_transaction", "last_in_transaction",
    ]  # fmt: skip
    for row, message in zip(rows, messages, strict=True):
        assert {name: row[name] for name in names} == {n: getattr(message, n) for n in names}
        assert row["body_size"] == len(message.body)
        assert row["sent_time"].timestamp() == pytest.approx(message.sent_time, abs=1e-6)
        assert row["arrived_time"].timestamp() == pytest.approx(message.arrived_time, abs=1e-6)
        assert (row["queue"], row["queue_born"], row["message_class"]) == ("orders", 7, 0)
    assert [row["transaction_size"] for row in rows[:30]] == [30] * 30


def test_without_bodies_the_other_columns_are_the_same(orders):
    orders.send_many(some_messages(50))
    whole = columns(orders)
    assert columns(orders, bodies=False) == [{**row, "body": None} for row in whole]


def test_the_size_of_a_very_long_transaction_is_in_its_last_rows(orders):
    count = FOLLOWING_MAX + 5
    orders.send_many([b"x"] * count)
    sizes = [row["transaction_size"] for row in columns(orders)]
    assert sizes == [None] * 5 + [count] * FOLLOWING_MAX


def test_messages_of_several_sources_have_their_own_ids(orders, manager):
    orders.send_many([b"one", b"two", b"three"])
    head, body = read(orders, bodies=False)
    ours, other = manager.info().id, "0f" * 16
    at = body.rindex(bytes.fromhex(ours))
    body = body[:at] + bytes.fromhex(other) + body[at + 16 :]
    rows = MessageColumns(head, memoryview(body), whole=False).batch(PLACE).to_pylist()
    assert [row["source"] for row in rows] == [ours, ours, other]
    assert [row["id"].split("\\")[0] for row in rows] == [ours, ours, other]
    assert rows[2]["transaction_id"].startswith(other)


@pytest.mark.parametrize("flipped", [0, 70, -1])
def test_a_damaged_record_is_refused(orders, flipped):
    orders.send_many([bytes(500)] * 3)
    head, body = read(orders)
    damaged = bytearray(body)
    damaged[flipped] ^= 1
    with pytest.raises(ProtocolError):
        MessageColumns(head, memoryview(bytes(damaged)), whole=True)


def test_records_that_do_not_fit_the_rows_are_refused(orders):
    orders.send_many([b"one", b"two"])
    head, body = read(orders)
    with pytest.raises(ProtocolError, match="do not match its rows"):
        MessageColumns(head, memoryview(body[:-1]), whole=True)
    fewer = RangeRead(head.born, head.rows[: RANGE_ROW.size])
    with pytest.raises(ProtocolError, match="do not match its rows"):
        MessageColumns(fewer, memoryview(body), whole=True)
