"""A queue that was deleted and made again under a query, and between two landings."""

from __future__ import annotations

import random
import shutil

import pytest

import dray
from dray.errors import QueueRecreated
from dray.spark import land
from dray.spark.failure import plainly
from dray.spark.landing.landing import Landing
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.settler import ManagerSettler
from dray.spark.landing.table import LandedTable
from tests.spark.judge import rows_in_order

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("interpreted")]


def send(queue, count):
    """Send large messages; give their bodies by sequence id."""
    large = dray.LargeMessageQueue(queue, fragment_size=10_000)
    bodies = [random.Random(number).randbytes(25_000 + number) for number in range(count)]
    return {large.send(body): body for body in bodies}


def make_again(manager, name):
    manager.delete_queue(name)
    return manager.create_queue(name)


def payloads(out):
    rows = rows_in_order(out)
    return {row["sequence_id"]: (out / "payload" / row["payload"]).read_bytes() for row in rows}


def test_a_recreated_queue_is_noticed_and_nothing_of_it_is_settled_unread(
    spark, daemon, manager, tmp_path
):
    def land_now(**options):
        return land(daemon.url, "parcels", tmp_path / "out", session=spark, **options)

    first = manager.queue("parcels")
    sent = send(first, 2)
    before = first.info().born
    assert land_now().files == 2
    parcels = make_again(manager, "parcels")
    with pytest.raises(QueueRecreated):
        land_now()
    new = send(parcels, 8)
    waiting = parcels.info()

    # The checkpoint tells it, and without a checkpoint the table does.
    for _ in range(2):
        with pytest.raises(QueueRecreated, match=r"queue 'parcels' .*accept_new_queue") as caught:
            land_now()
        assert "\n" not in str(caught.value)
        shutil.rmtree(tmp_path / "out" / "_dray" / "checkpoint", ignore_errors=True)
    assert parcels.info() == waiting
    assert payloads(tmp_path / "out") == sent

    summary = land_now(accept_new_queue=True)

    assert (summary.files, summary.clean) == (8, True)
    assert payloads(tmp_path / "out") == sent | new
    assert parcels.info().message_count == 0
    table = LandedTable(tmp_path / "out" / "table")
    assert set(table.read()["queue_born"].to_pylist()) == {before, waiting.born}
    assert table.reached.queue(manager.info().id, "parcels").born == waiting.born
    # It is known now.
    send(parcels, 1)
    assert land_now().files == 1


class LateSettler(ManagerSettler):
    """Settles the first batch when the queue has been made again and holds other messages."""

    def __init__(self, manager):
        super().__init__()
        self.manager = manager
        self.new = None

    def settle(self, key, reached):
        if self.new is None:
            self.new = send(make_again(self.manager, "parcels"), 3)
        return super().settle(key, reached)


@pytest.mark.parametrize("accepted", [False, True], ids=["refused", "accepted"])
def test_a_queue_made_again_between_reading_and_settling_keeps_its_messages(
    spark, daemon, manager, tmp_path, *, accepted
):
    out = tmp_path / "out"
    sent = send(manager.queue("parcels"), 2)
    settler = LateSettler(manager)
    reader = spark.readStream.format("dray").option("content", "large")
    reader = reader.option("acceptNewQueue", str(accepted).lower())
    rows = reader.option("url", daemon.url).option("queue", "parcels").load()
    landing = Landing(out, ManagerPuller(), settler, accept_new_queue=accepted)

    if accepted:
        landing.run(rows)
    else:
        with pytest.raises(QueueRecreated, match=r"queue 'parcels'"):
            landing.run(rows)

    settler.close()
    assert payloads(out) == sent
    assert manager.queue("parcels", raw=True).info().message_count == 5 * len(settler.new)
    land(daemon.url, "parcels", out, session=spark, accept_new_queue=True)
    assert payloads(out) == sent | settler.new


@pytest.fixture
def stream(spark, daemon, tmp_path):
    """Read what is there of the queue "orders", from where the run before ended."""

    def run(**options):
        seen = []
        reader = spark.readStream.format("dray").option("url", daemon.url).options(**options)
        query = (
            reader.option("queue", "orders")
            .load()
            .writeStream.foreachBatch(
                lambda batch, _: seen.extend(bytes(row.body) for row in batch.collect())
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(seen)

    return run


def test_a_plain_stream_ends_at_a_recreated_queue_or_begins_it_at_its_first_position(
    stream, manager
):
    manager.create_queue("orders").send_many([b"a", b"b", b"c"])
    assert stream() == [b"a", b"b", b"c"]
    orders = make_again(manager, "orders")
    orders.send_many([b"d", b"e"])

    with pytest.raises(Exception, match="deleted and made again") as caught:
        stream()
    error = plainly(caught.value)
    assert type(error) is QueueRecreated
    assert "queue 'orders'" in str(error)
    assert "set acceptNewQueue to true" in str(error)

    assert stream(acceptNewQueue="true") == [b"d", b"e"]
    orders.send(b"f")
    assert stream() == [b"f"]
    assert orders.info().message_count == 3
    make_again(manager, "orders").send(b"g")
    assert stream(failOnDataLoss="false") == [b"g"]
