"""Landing of small messages, alone and among large ones: once, in order, and nothing is left."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dray
from dray.errors import ReceiveTimeout
from dray.spark import land
from dray.spark.landing.landing import Landing
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.query import Until
from dray.spark.landing.settler import ManagerSettler
from dray.spark.landing.streams import BatchLimits, streams, told_options
from dray.spark.source.options import RANGES
from tests.spark.judge import rows_in_order
from tests.spark.judged import judge_bodies

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = Path(__file__).with_name("land_and_die.py")


@pytest.fixture
def orders(manager):
    return manager.create_queue("orders")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def land_orders(spark, daemon, out):
    """Land the queue "orders" of the manager."""

    def land_now(queue="orders", **options):
        return land(daemon.url, queue, out, session=spark, **options)

    return land_now


def some_bodies(count):
    chance = random.Random(5)
    return [chance.randbytes(chance.choice((0, 10, 1000))) for _ in range(count)]


def send(queue, bodies, **options):
    """Send messages; their bodies by id, in the order of the queue."""
    before = {message.id for message in queue.messages()}
    queue.send_many(bodies, **options)
    return {each.id: each.body for each in queue.messages() if each.id not in before}


def rows_of(out):
    return rows_in_order(out)


def assert_rows(out, sent):
    """Each of `sent`, bodies by id, has one row with its body, in the order of the queue."""
    rows = [row for row in rows_of(out) if row["body"] is not None]
    assert [(row["sequence_id"], row["body"]) for row in rows] == list(sent.items())
    assert [row["size"] for row in rows] == [len(body) for body in sent.values()]
    assert not list((out / "_dray" / "messages").iterdir())


def test_small_messages_land_as_rows_with_their_bodies(land_orders, orders, out):
    sent = send(orders, some_bodies(30))
    orders.send(b"labelled", label="a label", correlation_id="7", app_specific=3)
    (last,) = [each for each in orders.messages() if each.id not in sent]
    sent[last.id] = b"labelled"

    summary = land_orders(as_="messages")

    assert summary.clean
    assert (summary.messages, summary.files, summary.skipped) == (31, 0, 0)
    assert_rows(out, sent)
    rows = rows_of(out)
    assert [row["position_in_transaction"] for row in rows] == [*range(1, 31), 1]
    assert [row["transaction_size"] for row in rows] == [30] * 30 + [1]
    assert rows[30]["lookup_ranges"] == [[31, 31]]
    named = {name: rows[30][name] for name in ("label", "correlation_id", "app_specific", "state")}
    assert named == {
        "label": "a label", "correlation_id": "7", "app_specific": 3, "state": "landed",
    }  # fmt: skip
    assert all(row["sent_time"] <= row["arrived_time"] <= row["landed_time"] for row in rows)
    assert orders.info().message_count == 0
    # What comes later lands behind it; what was landed does not land again.
    sent |= send(orders, some_bodies(5))
    summary = land_orders(as_="messages")
    assert (summary.messages, summary.replayed, summary.duplicates) == (5, 0, 0)
    assert_rows(out, sent)


def test_a_queue_with_both_kinds_lands_whole(land_orders, manager, parcels, out):
    plain = manager.queue("parcels", raw=True)
    large, small = {}, {}
    for number in range(3):
        body = bytes([number]) * 25_000
        large[parcels.send(body)] = body
        plain.send_many([b"plain %d" % number] * 3)
    small = {each.id: each.body for each in plain.messages() if each.body.startswith(b"plain")}

    summary = land_orders("parcels", rows_per_batch=2)

    assert summary.clean
    assert (summary.files, summary.messages) == (3, 9)
    assert_rows(out, small)
    files = {row["sequence_id"]: row["payload"] for row in rows_of(out) if row["payload"]}
    assert {name: (out / "payload" / file).read_bytes() for name, file in files.items()} == large
    assert plain.info().message_count == 0


@pytest.mark.parametrize("as_", ["messages", "large"])
def test_the_other_kind_stays_and_is_named_and_does_not_dam_the_queue(
    land_orders, manager, parcels, out, *, as_
):
    plain = manager.queue("parcels", raw=True)
    for _ in range(2):
        parcels.send(bytes(25_000))
        plain.send_many([b"plain"] * 2)

    summary = land_orders("parcels", as_=as_)

    assert not summary.clean
    assert (summary.messages, summary.files) == ((4, 0) if as_ == "messages" else (0, 2))
    assert summary.skipped == (2 if as_ == "messages" else 4)
    (sentence,) = summary.left
    assert "that this landing leaves there; land with --as auto" in sentence
    left = plain.info().message_count
    assert left == (10 if as_ == "messages" else 4)
    # The rest lands into the same table.
    summary = land_orders("parcels")
    assert (summary.messages, summary.files) == ((0, 2) if as_ == "messages" else (4, 0))
    assert (summary.clean, len(rows_of(out))) == (True, 6)
    assert plain.info().message_count == 0


def test_a_message_that_a_receiver_holds_is_named(land_orders, manager, orders, out):
    sent = send(orders, [b"%d" % number for number in range(4)])
    with manager.transaction() as transaction:
        assert orders.receive_by_lookup_id(3, transaction=transaction).body == b"2"
        summary = land_orders()
        assert (summary.messages, summary.skipped, summary.clean) == (2, 1, False)
        transaction.abort()

    summary = land_orders()

    assert (summary.messages, summary.clean) == (2, True)
    assert_rows(out, sent)
    assert orders.info().message_count == 0


class ClaimingSettler(ManagerSettler):
    """A receiver claims a message when the table has it, before it is settled."""

    def __init__(self, queue, transaction):
        super().__init__()
        self.queue, self.transaction = queue, transaction

    def settle(self, key, reached):
        if self.transaction is not None:
            self.queue.receive_by_lookup_id(3, transaction=self.transaction)
            self.transaction = None
        return super().settle(key, reached)


def test_a_message_that_was_claimed_while_it_landed_is_not_left_behind(
    spark, daemon, manager, orders, *, land_orders, out
):
    """The offsets of the query are behind it: no later batch would have it."""
    sent = send(orders, [b"%d" % number for number in range(4)])
    transaction = manager.transaction()
    settler = ClaimingSettler(orders, transaction)
    told = told_options(daemon.url, "orders", None, fail=False, accept=False)
    rows = streams(spark, ("large", RANGES), told, BatchLimits(None, 1_000_000))
    Landing(out, ManagerPuller(), settler, checkpoint="checkpoint-auto").run(rows)
    settler.close()
    assert_rows(out, sent)
    assert orders.info().message_count == 1
    transaction.abort()

    summary = land_orders()

    assert_rows(out, sent)
    assert (summary.messages, summary.clean) == (0, True)
    assert orders.info().message_count == 0


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "points",
    [pytest.param(["pulling", "landed", "settled"], marks=pytest.mark.torture)],
    ids="-".join,
)
def test_killing_the_driver_anywhere_neither_loses_nor_repeats_a_small_message(
    daemon, orders, out, *, land_orders, points
):
    sent = {}
    for number in range(18):
        sent |= send(orders, [b"body %d" % number])

    for point in points:
        command = [sys.executable, str(DRIVER), daemon.url, str(out), point, "messages"]
        ended = subprocess.run(command, check=False, timeout=400)
        assert ended.returncode == -signal.SIGKILL
    summary = land_orders(as_="messages")

    assert summary.duplicates == 0
    assert judge_bodies(sent, out, large=False) == ""
    assert orders.info().message_count == 0


@pytest.mark.torture
@pytest.mark.timeout(400)
def test_a_receiver_that_claims_and_gives_back_all_the_time_hides_no_message_from_a_landing(
    daemon, orders, out, *, land_orders
):
    over = threading.Event()

    def claim_and_give_back():
        with dray.connect(daemon.url) as manager:
            while not over.is_set():
                with manager.transaction() as transaction:
                    with contextlib.suppress(ReceiveTimeout):
                        for _ in range(5):
                            manager.queue("orders").receive(timeout=0.05, transaction=transaction)
                    transaction.abort()

    def send_on():
        with dray.connect(daemon.url) as manager:
            for _ in range(150):
                with manager.transaction() as transaction:
                    for _ in range(10):
                        manager.queue("orders").send(b"body", transaction=transaction)
                time.sleep(0.1)
        over.set()

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(each) for each in (claim_and_give_back, send_on)]
        summary = land_orders(until=Until(follow=True, idle_s=4), commit_every=0)
        for each in running:
            each.result()

    assert (summary.messages, summary.taken, summary.clean) == (1_500, 0, True)
    assert len(rows_of(out)) == 1_500
    assert orders.info().message_count == 0
