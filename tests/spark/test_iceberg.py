"""The Iceberg recipe of the how-to: each row once, also if the driver is killed at a commit."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.spark import iceberg_and_die

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAM = Path(iceberg_and_die.__file__)
COUNT = 30


def table(directory):
    lake = directory / "lake"
    catalog = SqlCatalog("orders", uri=f"sqlite:///{lake}.db", warehouse=lake.as_uri())
    return catalog.load_table("lake.orders")


@pytest.mark.parametrize(
    "point", [pytest.param("appending", marks=pytest.mark.torture), "appended"]
)
def test_the_recipe_for_iceberg_writes_each_row_once_also_when_it_is_killed(
    spark, daemon, manager, tmp_path, *, monkeypatch, point
):
    orders = manager.create_queue("orders")
    for number in range(COUNT):
        orders.send(b"%d" % number)
    checkpoint = str(tmp_path / "checkpoint")
    died = subprocess.run(
        [sys.executable, str(PROGRAM), daemon.url, checkpoint, point],
        cwd=tmp_path, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-3000:]
    assert table(tmp_path).scan().to_arrow().num_rows == (20 if point == "appended" else 10)
    monkeypatch.chdir(tmp_path)
    iceberg_and_die.start(spark, daemon.url, checkpoint).awaitTermination()

    rows = table(tmp_path).scan().to_arrow()
    assert sorted(rows["body"].to_pylist()) == sorted(b"%d" % number for number in range(COUNT))
    assert orders.info().message_count == 0
    # An old driver that is still alive cannot add a batch behind the new one's back.
    stale, fresh = table(tmp_path), table(tmp_path)
    fresh.append(rows)
    with pytest.raises(CommitFailedException):
        stale.append(rows)
