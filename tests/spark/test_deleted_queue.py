"""A queue that is deleted under a query or a landing over a pattern: the other queues go on."""

from __future__ import annotations

import pytest

import dray
from dray.errors import DrayError, QueueNotFound, StoreError
from dray.spark import land, settling
from dray.spark.failure import plainly
from dray.spark.landing.landing import Landing
from dray.spark.landing.settler import ManagerSettler
from dray.spark.settle_batches import _BatchOfSource
from tests.spark.judge import rows_in_order

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("interpreted")]

NAMES = ("q-1", "q-2", "q-3")


@pytest.fixture
def queues(manager):
    """Three queues with two small messages each."""
    for name in NAMES:
        manager.create_queue(name).send_many([f"{name} a".encode(), f"{name} b".encode()])
    return {name: manager.queue(name) for name in NAMES}


@pytest.fixture
def run_query(spark, daemon, tmp_path):
    """Settle what is there of some queues; `before(call)` comes before the rows are read."""

    def run(queue, before=lambda: None, **options):
        seen = []

        def write(rows, _batch_id):
            before()
            seen.extend(bytes(row.body) for row in rows.collect())

        reader = spark.readStream.format("dray").option("url", daemon.url).options(**options)
        rows = reader.option("queue", queue).load().select("body")
        writer = rows.writeStream.foreachBatch(settling(write))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(seen)

    return run


def kept(*names):
    return [f"{name} {letter}".encode() for name in names for letter in "ab"]


def fail_after(act):
    def fail():
        act()
        raise RuntimeError("the driver ends here")

    return fail


def test_a_query_that_may_lose_messages_goes_on_without_a_queue_deleted_under_its_batch(
    run_query, manager, queues
):
    def delete():
        manager.delete_queue("q-2")

    with pytest.raises(Exception, match="the driver ends here"):
        run_query("q-*", fail_after(delete), failOnDataLoss="false")

    # The batch that Spark has planned names the queue, and comes again.
    assert run_query("q-*", failOnDataLoss="false") == kept("q-1", "q-3")
    queues["q-3"].send(b"later")
    assert run_query("q-*", failOnDataLoss="false") == [b"later"]
    assert [queues[name].info().message_count for name in ("q-1", "q-3")] == [0, 0]


def test_a_task_goes_on_without_a_queue_that_is_deleted_before_it_is_read(
    run_query, manager, queues
):
    assert run_query("q-*", lambda: manager.delete_queue("q-2"), failOnDataLoss="false") == kept(
        "q-1", "q-3"
    )
    assert queues["q-1"].info().message_count == 0


def test_a_query_that_may_lose_nothing_ends_at_a_deleted_queue_and_says_what_to_do(
    run_query, manager, queues
):
    with pytest.raises(Exception, match="the driver ends here"):
        run_query("q-*", fail_after(lambda: manager.delete_queue("q-2")))

    with pytest.raises(Exception, match="set failOnDataLoss to false") as caught:
        run_query("q-*")

    assert type(plainly(caught.value)) is QueueNotFound
    assert queues["q-1"].info().message_count == 2


def test_a_query_that_no_longer_names_a_queue_of_its_planned_batch_passes_over_nothing(
    run_query, queues
):
    with pytest.raises(Exception, match="the driver ends here"):
        run_query("q-*", fail_after(lambda: None), failOnDataLoss="false")

    with pytest.raises(Exception, match="mend the options url and queue") as caught:
        run_query("q-1, q-3", failOnDataLoss="false")

    assert isinstance(plainly(caught.value), QueueNotFound)
    assert run_query("q-*", failOnDataLoss="false") == kept(*NAMES)
    assert all(queue.info().message_count == 0 for queue in queues.values())


@pytest.fixture
def delete_at(manager, monkeypatch):
    """Delete queues before a method is called for the first time."""

    def delete(owner, method, *names):
        original, doomed = getattr(owner, method), list(names)

        def late(*given):
            while doomed:
                manager.delete_queue(doomed.pop())
            return original(*given)

        monkeypatch.setattr(owner, method, late)

    return delete


def test_a_queue_that_is_deleted_when_its_batch_is_written_leaves_the_others_to_be_settled(
    run_query, queues, delete_at
):
    delete_at(_BatchOfSource, "settle", "q-1")

    with pytest.raises(Exception, match="set failOnDataLoss to false") as caught:
        run_query("q-*")

    assert type(plainly(caught.value)) is StoreError
    assert [queues[name].info().message_count for name in ("q-2", "q-3")] == [0, 0]


@pytest.fixture
def land_all(spark, daemon, out):
    return lambda: land(daemon.url, "*-*", out, session=spark)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def parcels(manager):
    """The ids of two large messages in queues of their own."""
    return [
        dray.LargeMessageQueue(manager.create_queue(name)).send(b"a parcel")
        for name in ("p-1", "p-2")
    ]


def landed(out):
    rows = rows_in_order(out)
    small = sorted(bytes(row["body"]) for row in rows if row["body"] is not None)
    return small, [row["sequence_id"] for row in rows if row["payload"]]


def test_a_landing_goes_on_without_queues_that_are_deleted_when_their_messages_are_planned(
    land_all, out, queues, *, parcels, delete_at
):
    delete_at(Landing, "_pulled", "p-1", "q-2")

    assert land_all().taken == 2

    assert landed(out) == (kept("q-1", "q-3"), parcels[1:])
    assert [queues[name].info().message_count for name in ("q-1", "q-3")] == [0, 0]


def test_a_landing_goes_on_without_queues_that_are_deleted_when_their_messages_have_landed(
    land_all, out, queues, *, parcels, delete_at
):
    delete_at(ManagerSettler, "settle", "p-1", "q-2")

    land_all()

    assert landed(out) == (kept(*NAMES), parcels)
    assert [queues[name].info().message_count for name in ("q-1", "q-3")] == [0, 0]
    queues["q-1"].send(b"later")
    assert land_all().messages == 1


def test_a_landing_that_was_killed_goes_on_without_a_queue_that_was_deleted_since(
    land_all, out, manager, parcels
):
    def die(*_):
        raise RuntimeError("the driver ends here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Landing, "_pulled", die)
        with pytest.raises(DrayError, match="the driver ends here"):
            land_all()
    manager.delete_queue("p-1")

    assert land_all().files == 1
    assert landed(out) == ([], parcels[1:])
