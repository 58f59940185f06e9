"""A queue manager that is restored, or put back, under a landing, `settling` and the sink."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

import dray
from dray.errors import QueueRecreated, StoreError
from dray.spark import land, settling
from dray.spark.failure import plainly
from dray.spark.landing.settler import ManagerSettler
from tests.spark.judge import rows_in_order
from tests.spark.judged import JudgedQueue

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("interpreted")]


@pytest.fixture
def restored(daemon, tmp_path):
    """Put the manager back to its backup, at the same address."""

    def put_back(backup):
        daemon.kill()
        dray.restore(backup, tmp_path / "restored")
        daemon.directory = tmp_path / "restored"
        daemon.start()

    return put_back


def test_a_queue_restored_under_a_landing_is_noticed_and_nothing_of_it_is_settled_unread(
    spark, daemon, manager, *, tmp_path, restored
):
    """A message that a receiver had taken is back behind the landing's position, and lands last."""
    out, backup = tmp_path / "out", tmp_path / "backup.dray"
    judged = JudgedQueue(manager, "parcels", tmp_path / "sent", seed=3)
    judged.send(4)
    in_backup = {json.loads(line)["id"] for line in judged.ledger.read_text().splitlines()}
    manager.backup(backup)
    with judged.large.receive(timeout=0) as message:
        taken = message.sequence_id
    judged.send(1)
    land(daemon.url, "parcels", out, session=spark)
    before = ids(out)
    assert taken not in before
    restored(backup)
    count = judged.queue.info().message_count
    assert count

    with pytest.raises(QueueRecreated, match="restored from a backup"):
        land(daemon.url, "parcels", out, session=spark)
    assert judged.queue.info().message_count == count
    judged.send(2)
    summary = land(daemon.url, "parcels", out, session=spark, accept_new_queue=True)

    assert summary.duplicates == len(set(before) & in_backup)
    assert ids(out)[: len(before) + 1] == [*before, taken]
    assert judged.judge(out) == "large messages are not in the order of sending"


@pytest.fixture
def put_back(daemon, tmp_path):
    """Copy the directory of the stopped manager; or put the copy in its place again."""

    def copy():
        daemon.end()
        shutil.copytree(daemon.directory, tmp_path / "copy")
        daemon.start()

    def back():
        daemon.kill()
        shutil.rmtree(daemon.directory)
        shutil.copytree(tmp_path / "copy", daemon.directory)
        daemon.start()

    return copy, back


def test_a_store_that_was_put_back_under_a_landing_loses_no_later_message(
    spark, daemon, manager, *, put_back, tmp_path
):
    """The copy gives positions and ids out again that the landing knows, for other messages."""

    def land_now(out, **options):
        return land(daemon.url, "parcels", tmp_path / out, session=spark, **options)

    def send(queue, tag, count):
        large = dray.LargeMessageQueue(queue)
        found = [tag.encode() * each for each in range(1, count + 1)]
        for body in found:
            large.send(body, label="a file") if len(body) % 2 else plain.send(body)
        return found

    copy, back = put_back
    parcels, plain = manager.queue("parcels"), manager.queue("parcels", raw=True)
    first = send(parcels, "a", 4)
    land_now("out")
    copy()
    second = send(parcels, "b", 4)
    land_now("out")
    back()
    third = send(parcels, "c", 6)
    count = parcels.info().message_count

    with pytest.raises(QueueRecreated):
        land_now("out")
    with pytest.raises(StoreError, match=r"has the id of another one that landed .* put back"):
        land_now("out", accept_new_queue=True)

    assert parcels.info().message_count == count
    assert bodies_of(tmp_path / "out") == sorted([*first, *second])
    assert land_now("elsewhere").clean
    assert bodies_of(tmp_path / "elsewhere") == sorted(third)
    assert parcels.info().message_count == 0


def test_a_store_put_back_with_the_checkpoint_lost_replaces_no_payload_that_has_landed(
    spark, daemon, manager, *, put_back, tmp_path
):
    """Nothing tells the queue manager then, and it gives out the ids of payloads again."""
    copy, back = put_back
    parcels = dray.LargeMessageQueue(manager.queue("parcels"))
    copy()
    first = [parcels.send(body) for body in (b"a", b"bb")]
    land(daemon.url, "parcels", tmp_path / "out", session=spark)
    back()
    assert [parcels.send(body) for body in (b"c", b"dd")] == first
    count = manager.queue("parcels").info().message_count
    shutil.rmtree(tmp_path / "out" / "_dray" / "checkpoint-auto")

    for _ in range(2):
        with pytest.raises((QueueRecreated, StoreError)):
            land(daemon.url, "parcels", tmp_path / "out", session=spark)

    assert bodies_of(tmp_path / "out") == [b"a", b"bb"]
    assert manager.queue("parcels").info().message_count == count


def bodies_of(out):
    return sorted(
        row["body"] if row["payload"] is None else (out / "payload" / row["payload"]).read_bytes()
        for row in rows_in_order(out)
    )


def test_a_store_that_was_put_back_under_a_planned_batch_ends_its_query_and_settles_nothing(
    spark, daemon, manager, *, put_back, tmp_path
):
    copy, back = put_back
    orders = manager.create_queue("orders")
    copy()
    orders.send_many([b"old 1", b"old 2"])

    def fail(_rows, _batch_id):
        raise RuntimeError("the driver ends here")

    def run(write):
        rows = spark.readStream.format("dray").options(url=daemon.url, queue="orders").load()
        writer = rows.writeStream.foreachBatch(settling(write))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the driver ends here"):
        run(fail)
    back()
    orders.send_many([b"new 1", b"new 2"])

    with pytest.raises(Exception, match="deleted and made again") as caught:
        run(lambda rows, _: rows.count())

    assert type(plainly(caught.value)) is QueueRecreated
    assert [bytes(message.body) for message in orders.messages()] == [b"new 1", b"new 2"]


def test_a_store_that_is_put_back_while_a_micro_batch_lands_keeps_its_new_messages(
    spark, daemon, manager, *, put_back, tmp_path, monkeypatch
):
    copy, back = put_back
    orders = manager.queue("parcels", raw=True)
    copy()
    orders.send_many([b"old 1", b"old 2"])
    settle = ManagerSettler.settle

    def late(*given):
        monkeypatch.undo()
        back()
        orders.send_many([b"new 1", b"new 2"])
        return settle(*given)

    monkeypatch.setattr(ManagerSettler, "settle", late)
    with pytest.raises(QueueRecreated):
        land(daemon.url, "parcels", tmp_path / "out", session=spark)

    assert [bytes(message.body) for message in orders.messages()] == [b"new 1", b"new 2"]


def ids(out):
    return [row["sequence_id"] for row in rows_in_order(out)]


def test_a_queue_restored_under_settling_ends_the_query_and_keeps_its_messages(
    spark, daemon, manager, *, tmp_path, restored
):
    orders = manager.create_queue("orders")
    orders.send(b"in the backup")
    manager.backup(tmp_path / "backup.dray")
    written = []

    def write(rows, _batch_id):
        written.extend(bytes(row.body) for row in rows.collect())

    def run(**options):
        reader = spark.readStream.format("dray").options(url=daemon.url, queue="orders", **options)
        writer = reader.load().writeStream.foreachBatch(settling(write))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    run()
    restored(tmp_path / "backup.dray")
    with pytest.raises(Exception, match="restored from a backup") as caught:
        run()
    assert len(str(caught.value).splitlines()) <= 6
    assert [bytes(message.body) for message in orders.messages()] == [b"in the backup"]

    orders.send(b"later")
    run(failOnDataLoss="false")

    assert written == [b"in the backup", b"in the backup", b"later"]
    assert orders.info().message_count == 0


def test_a_batch_that_a_restored_manager_has_lost_is_sent_to_it_again_and_no_other(
    spark, daemon, manager, *, tmp_path, restored
):
    rows = manager.create_queue("rows")

    def send(batch_id):
        table = spark.createDataFrame([(f"row {batch_id}",)], "body string")
        writer = table.write.format("dray").mode("append").option("url", daemon.url)
        writer = writer.option("queue", "rows").option("query_id", "q")
        writer.option("batch_id", batch_id).save()

    send(0)
    manager.backup(tmp_path / "backup.dray")
    send(1)
    restored(tmp_path / "backup.dray")
    for batch_id in (0, 1, 1):
        send(batch_id)

    found = Counter(bytes(message.body) for message in rows.messages())
    assert found == Counter([b"row 0", b"row 1"])
    assert rows.info().staged_count == 0
