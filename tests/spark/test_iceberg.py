"""The Iceberg recipe of the how-to: each row once, also if a commit is the last thing it does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("iceberg_and_die.py")
COUNT = 30


def table(directory):
    # Every process of a run reads this file, and loading this would cost each the better part of a
    # second.
    from pyiceberg.catalog.sql import SqlCatalog

    lake = directory / "lake"
    catalog = SqlCatalog("orders", uri=f"sqlite:///{lake}.db", warehouse=lake.as_uri())
    return catalog.load_table("lake.orders")


@pytest.fixture
def orders(manager):
    queue = manager.create_queue("orders")
    for number in range(COUNT):
        queue.send(b"%d" % number)
    return queue


def assert_each_row_once(directory, orders):
    rows = table(directory).scan().to_arrow()
    assert sorted(rows["body"].to_pylist()) == sorted(b"%d" % number for number in range(COUNT))
    assert orders.info().message_count == 0


@pytest.mark.torture
@pytest.mark.parametrize("point", ["appending", "appended"])
def test_the_recipe_for_iceberg_writes_each_row_once_also_when_it_is_killed(
    spark, daemon, orders, tmp_path, *, monkeypatch, point
):
    from tests.spark import iceberg_and_die

    checkpoint = str(tmp_path / "checkpoint")
    died = subprocess.run(
        [sys.executable, str(PROGRAM), daemon.url, checkpoint, point],
        cwd=tmp_path, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-3000:]
    assert table(tmp_path).scan().to_arrow().num_rows == (20 if point == "appended" else 10)
    monkeypatch.chdir(tmp_path)

    iceberg_and_die.start(spark, daemon.url, checkpoint).awaitTermination()

    assert_each_row_once(tmp_path, orders)


def test_the_recipe_for_iceberg_writes_each_row_once_also_when_a_batch_comes_again(
    spark, daemon, orders, tmp_path, *, monkeypatch
):
    from pyiceberg.exceptions import CommitFailedException

    from tests.spark import iceberg_and_die

    monkeypatch.chdir(tmp_path)
    batches = []

    def write_and_fail_once(rows, batch_id):
        batches.append(batch_id)
        iceberg_and_die.recipe()(rows, batch_id)
        if batches == [0, 1]:
            raise RuntimeError("ended before the batch was noted")

    def run():
        checkpoint = str(tmp_path / "checkpoint")
        query = iceberg_and_die.start(spark, daemon.url, checkpoint, write_and_fail_once)
        query.awaitTermination()

    with pytest.raises(Exception, match="ended before the batch was noted"):
        run()
    run()

    assert batches == [0, 1, 1, 2]
    assert_each_row_once(tmp_path, orders)
    # An old driver that is still alive cannot add a batch behind the new one's back.
    stale, fresh = table(tmp_path), table(tmp_path)
    rows = fresh.scan().to_arrow()
    fresh.append(rows)
    with pytest.raises(CommitFailedException):
        stale.append(rows)
