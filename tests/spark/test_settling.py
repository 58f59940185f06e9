"""Settling for any query: exactly what a batch has read leaves the queue, once it is written."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow.parquet import read_table

from dray.spark import settling
from tests.spark import settle_and_die

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = Path(settle_and_die.__file__)
COUNT = 30
RANDOM_KILLS = 20


@pytest.fixture
def orders(manager):
    """A queue with messages, ten to a transaction."""
    queue = manager.create_queue("orders")
    for ten in range(COUNT // 10):
        with manager.transaction() as transaction:
            for one in range(10):
                queue.send(f"order {10 * ten + one}".encode(), transaction=transaction)
    return queue


@pytest.fixture
def chain(daemon, manager, orders):
    """The manager's address, the queue that is read, and the queue for what comes of it."""
    return daemon.url, orders, manager.create_queue("results")


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def run_query(spark, daemon, checkpoint):
    def run(write, queue="orders", change=None, **options):
        reader = spark.readStream.format("dray").option("url", daemon.url)
        rows = reader.option("queue", queue).options(**options).load()
        writer = (change(rows) if change else rows).writeStream.foreachBatch(settling(write))
        writer = writer.option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    return run


def count(rows, _batch_id):
    rows.count()


def bodies(queue):
    return Counter(bytes(message.body) for message in queue.messages())


def forget_last(checkpoint, log):
    directory = checkpoint / log
    last = max(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
    (directory / str(last)).unlink()
    (directory / f".{last}.crc").unlink(missing_ok=True)


def test_a_batch_is_settled_whatever_rows_and_columns_write_kept(run_query, orders):
    kept = []

    def write(rows, batch_id):
        kept.extend(row.n for row in rows.collect())

    run_query(
        write,
        change=lambda rows: rows.selectExpr("length(body) AS n").filter("n < 8"),
        maxOffsetsPerTrigger="10",
    )
    assert kept == [7] * 10
    assert orders.info().message_count == 0


def test_messages_before_the_start_of_the_query_stay(run_query, manager, orders):
    position = list(orders.messages())[9].lookup_id
    info = orders.info()
    reached = {"born": info.born, "lookup_id": position}
    start = json.dumps({manager.info().id: {"orders": reached}})
    run_query(count, startingOffsets=start)
    assert bodies(orders) == Counter(f"order {at}".encode() for at in range(10))


def test_a_write_that_fails_settles_nothing(run_query, orders):
    def write(rows, batch_id):
        if batch_id == 1:
            raise RuntimeError("the table is not there")

    with pytest.raises(Exception, match="the table is not there"):
        run_query(write, maxOffsetsPerTrigger="10")
    assert orders.info().message_count == COUNT - 10


def test_a_batch_that_is_settled_and_comes_again_is_not_written_again(
    run_query, checkpoint, orders
):
    written = []

    def write(rows, batch_id):
        written.append((batch_id, rows.count()))

    run_query(write, maxOffsetsPerTrigger="10")
    forget_last(checkpoint, "commits")
    run_query(write, maxOffsetsPerTrigger="10")
    assert written == [(0, 10), (1, 10), (2, 10)]
    assert orders.info().message_count == 0


class EndsClaims(logging.Handler):
    """Ends what a receiver holds when the query says that it waits for it."""

    def __init__(self, *ends):
        super().__init__(logging.WARNING)
        self.ends = list(ends)

    def emit(self, record):
        if self.ends and "a receiver has held the message" in record.getMessage():
            self.ends.pop()()


def test_messages_that_receivers_claim_meanwhile_leave_the_queue_however_the_claims_end(
    run_query, manager, orders
):
    """One receiver aborts, and the query takes the message; one commits."""
    aborted, committed = manager.transaction(), manager.transaction()
    waiting = EndsClaims(aborted.abort, committed.commit)
    written = []

    def write(rows, _batch_id):
        written.extend(bytes(row.body) for row in rows.collect())
        orders.receive_by_lookup_id(3, transaction=committed)
        orders.receive_by_lookup_id(5, transaction=aborted)

    logger = logging.getLogger("dray.spark.source.ranges")
    logger.addHandler(waiting)
    try:
        run_query(write, claimTimeout="1")
    finally:
        logger.removeHandler(waiting)

    assert waiting.ends == []
    assert Counter(written) == Counter(f"order {at}".encode() for at in range(COUNT))
    assert orders.info().message_count == 0


def test_a_queue_that_is_purged_before_it_is_settled_loses_nothing_that_was_written(
    run_query, orders
):
    written = []

    def write(rows, batch_id):
        written.extend(bytes(row.body) for row in rows.collect())
        if not batch_id:
            orders.purge()
            orders.send(b"later")

    run_query(write, maxOffsetsPerTrigger="10", failOnDataLoss="false")
    run_query(write, failOnDataLoss="false")

    assert written == [*(b"order %d" % at for at in range(10)), b"later"]
    assert orders.info().message_count == 0


def test_large_messages_are_settled_with_all_their_parts(run_query, manager, parcels, caplog):
    ids = [parcels.send(bytes([at]) * 45_000, label=f"parcel {at}") for at in range(4)]
    raw = manager.queue("parcels", raw=True)
    parts = [m.lookup_id for m in raw.messages() if ids[1] in (m.id, m.correlation_id)]
    raw.receive_by_lookup_id(parts[2])
    seen = []

    def write(rows, batch_id):
        seen.extend((row.label, list(row.missing)) for row in rows.collect())

    with caplog.at_level(logging.WARNING):
        run_query(write, queue="parcels", content="large", maxOffsetsPerTrigger="2")
    assert sorted(seen) == [(f"parcel {at}", ["2"] if at == 1 else []) for at in range(4)]
    assert raw.info().message_count == 0


def test_a_query_of_another_source_is_refused_in_a_sentence(spark, tmp_path):
    rows = spark.readStream.format("rate").load()
    writer = rows.writeStream.foreachBatch(settling(count))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception, match="reads from format"):
        query.awaitTermination()


@pytest.mark.torture
@pytest.mark.parametrize("point", ["unread", "written", "noted", "settled"])
def test_a_driver_killed_before_write_or_until_it_has_settled_sends_each_row_once(
    spark, chain, checkpoint, point
):
    url, orders, results = chain
    command = [sys.executable, str(DRIVER), url, str(checkpoint), point]
    died = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert sum(bodies(results).values()) == (10 if point == "unread" else 20)
    assert orders.info().message_count == (10 if point == "settled" else 20)

    settle_and_die.start(spark, url, str(checkpoint)).awaitTermination()

    assert bodies(results) == Counter(f"ORDER {at}".encode() for at in range(COUNT))
    assert orders.info().message_count == 0


@pytest.fixture
def write_parquet(tmp_path):
    """The recipe of the page, for a directory of the test."""
    page = (Path(__file__).parents[2] / "docs/how-to/settle-what-a-query-reads.md").read_text()
    (code,) = re.findall(r"```python\n((?:(?!```).)*def write_parquet.*?)```", page, re.DOTALL)
    recipe: dict = {}
    exec(code.replace('"orders/', f'"{tmp_path}/orders/'), recipe)  # noqa: S102 - the page's code
    return recipe["write_parquet"]


def named_by(manifests):
    """The bodies in the files that manifests name."""
    named = [
        Path(line) for manifest in manifests.iterdir() for line in manifest.read_text().splitlines()
    ]
    return Counter(row for path in named for row in read_table(path)["body"].to_pylist())


def test_the_recipe_for_parquet_has_each_message_once_in_what_its_manifests_name(
    run_query, checkpoint, orders, *, write_parquet, tmp_path, monkeypatch
):
    failed, named_at_syncs = [], []
    manifests = tmp_path / "orders" / "manifests"
    monkeypatch.setattr(
        "os.sync",
        lambda: named_at_syncs.append(len({*manifests.iterdir()} - {*manifests.glob("*.*")})),
    )

    def write(rows, batch_id):
        if batch_id == 1 and not failed:
            failed.append(batch_id)
            rows.limit(3).write.parquet(f"{tmp_path}/orders/data/{batch_id}")
            raise RuntimeError("this was half a batch")
        write_parquet(rows, batch_id)

    with pytest.raises(Exception, match="half a batch"):
        run_query(write, maxOffsetsPerTrigger="10")
    run_query(write, maxOffsetsPerTrigger="10")
    forget_last(checkpoint, "commits")
    run_query(write, maxOffsetsPerTrigger="10")

    # A new checkpoint counts its batches from 0 again, and they are other ones.
    shutil.rmtree(checkpoint)
    orders.send(b"later")
    run_query(write_parquet)

    batches = len({*manifests.iterdir()})
    assert named_at_syncs == [at + after for at in range(batches) for after in (0, 1)]
    assert named_by(manifests) == Counter(
        [*(f"order {at}".encode() for at in range(COUNT)), b"later"]
    )
    assert orders.info().message_count == 0


def test_an_old_driver_that_wakes_in_the_recipe_for_parquet_changes_no_batch_of_the_new_one(
    run_query, orders, write_parquet, *, tmp_path, monkeypatch
):
    manifests, exists = tmp_path / "orders" / "manifests", Path.exists

    def sleep_behind(path):
        """Find no manifest; another driver writes the batch before this one goes on."""
        found = exists(path)
        if path.parent == manifests and not woken:
            woken.append(path)
            write_parquet(*given[0])
        return found

    def write(*batch):
        given.append(batch)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "exists", sleep_behind)
            write_parquet(*batch)

    given, woken = [], []
    with pytest.raises(Exception, match="File exists"):
        run_query(write)
    run_query(write)

    assert named_by(manifests) == Counter(f"order {at}".encode() for at in range(COUNT))
    assert orders.info().message_count == 0


def test_the_recipe_for_delta_writes_each_row_once_also_when_a_batch_comes_again(
    run_query, orders, tmp_path, monkeypatch
):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "settle-what-a-query-reads.md"
    section = page.read_text("utf-8").partition("## Recipe: Delta")[2]
    recipe = {}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], recipe)  # noqa: S102 - our page
    monkeypatch.chdir(tmp_path)
    batches = []

    def write_and_die_once(rows, batch_id):
        batches.append(batch_id)
        recipe["write_delta"](rows, batch_id)
        if batches == [0, 1]:
            raise RuntimeError("died before the batch was noted")

    def run():
        run_query(
            write_and_die_once, change=lambda rows: rows.select("body"), maxOffsetsPerTrigger="10"
        )

    with pytest.raises(Exception, match="died before the batch was noted"):
        run()
    run()

    assert batches == [0, 1, 1, 2]
    rows = DeltaTable(str(tmp_path / "orders-table")).to_pyarrow_table()["body"].to_pylist()
    assert sorted(rows) == sorted(b"order %d" % number for number in range(COUNT))
    assert orders.info().message_count == 0


@pytest.mark.torture
def test_an_empty_offsets_file_ends_a_settling_query_and_nothing_is_lost(
    run_query, checkpoint, orders
):
    written = Counter()

    def write(rows, _batch_id):
        written.update(bytes(row.body) for row in rows.collect())

    run_query(write, maxOffsetsPerTrigger="20")
    forget_last(checkpoint, "commits")
    newest = max((checkpoint / "offsets").glob("[0-9]*"))
    newest.write_bytes(b"")
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    orders.send(b"later")

    with pytest.raises(Exception, match=newest.name):
        run_query(write)
    assert bodies(orders) == Counter([b"later"])
    shutil.rmtree(checkpoint)
    run_query(write)

    assert written == Counter([*(f"order {at}".encode() for at in range(COUNT)), b"later"])
    assert orders.info().message_count == 0


@pytest.mark.torture
def test_a_manager_that_is_killed_under_settling_is_waited_for_and_nothing_comes_twice(
    run_query, daemon, orders
):
    written = []

    def write(rows, batch_id):
        written.extend(bytes(row.body) for row in rows.collect())
        if batch_id == 1:
            daemon.kill()
            daemon.start()

    run_query(write, maxOffsetsPerTrigger="10")

    assert sorted(written) == sorted(f"order {at}".encode() for at in range(COUNT))
    assert orders.info().message_count == 0


def test_a_manager_that_stays_away_ends_a_settling_query_and_the_next_one_goes_on(
    run_query, daemon, orders, monkeypatch
):
    monkeypatch.setattr("dray.spark.managers.PATIENCE_S", 0.5)
    written = {}

    def write(rows, batch_id):
        first = batch_id not in written
        written[batch_id] = [bytes(row.body) for row in rows.collect()]
        if batch_id == 1 and first:
            daemon.kill()

    with pytest.raises(Exception, match=r"is `dray serve` running there|closed"):
        run_query(write, maxOffsetsPerTrigger="10")
    assert sorted(written) == [0, 1]
    daemon.start()
    run_query(write, maxOffsetsPerTrigger="10")

    found = [body for bodies in written.values() for body in bodies]
    assert sorted(found) == sorted(f"order {at}".encode() for at in range(COUNT))
    assert orders.info().message_count == 0


@pytest.mark.torture
@pytest.mark.timeout(7_200)
def test_a_chain_killed_at_random_sends_and_settles_each_row_once(spark, chain, checkpoint):
    """Twenty kills of a driver that settles what it has sent on with the sink, seed 5."""
    url, orders, results = chain
    command = [sys.executable, str(DRIVER), url, str(checkpoint), "never"]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes = time.monotonic() - began
    chance, killed, sent = random.Random(5), 0, COUNT
    while killed < RANDOM_KILLS:
        orders.send_many([f"order {at}".encode() for at in range(sent, sent + 25)])
        sent += 25
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            driver.wait(chance.uniform(0.3, 1.1) * takes)
        except subprocess.TimeoutExpired:
            killed += 1
        driver.kill()
        driver.wait()
    settle_and_die.start(spark, url, str(checkpoint)).awaitTermination()

    assert bodies(results) == Counter(f"ORDER {at}".encode() for at in range(sent))
    assert (orders.info().message_count, results.info().staged_count) == (0, 0)
