"""Landings in each other's way, and in a purge's; and a judge who says what became of it."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

import dray
from dray.spark import land
from dray.spark.landing.landing import Landing
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.settler import ManagerSettler
from tests.spark.judged import JudgedQueue

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("interpreted")]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def judged(manager, tmp_path):
    return JudgedQueue(manager, "parcels", tmp_path / "sent", seed=11)


def test_the_judge_finds_what_is_lost_doubled_changed_and_left(spark, daemon, judged, *, out):
    judged.send(4)
    land(daemon.url, "parcels", out, session=spark)
    assert judged.judge(out) == ""

    payload = max((out / "payload").iterdir(), key=lambda path: path.stat().st_size)
    whole = payload.read_bytes()
    payload.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (out / "payload" / ".x.partial").touch()
    (table,) = (out / "table").iterdir()
    (table.parent / "landed-000000000002.parquet").hardlink_to(table)
    with judged.ledger.open("a") as file:
        file.write('{"id": "x", "sha256": "", "size": 0, "large": true, "transaction": 9}\n')
    judged.queue.send(b"one more")

    said = judged.judge(out)

    for complaint in (
        "has 2 rows", "has other bytes than were sent", "payload/.x.partial is left behind",
        "x is lost", "1 messages left",
    ):  # fmt: skip
        assert complaint in said


def test_the_judge_shares_no_code_with_what_it_judges():
    tree = ast.parse((Path(__file__).parent / "judge.py").read_text())
    imported = {
        name.split(".")[0]
        for each in ast.walk(tree)
        for name in (
            [alias.name for alias in each.names]
            if isinstance(each, ast.Import)
            else [each.module or ""]
            if isinstance(each, ast.ImportFrom)
            else []
        )
    }
    assert imported - sys.stdlib_module_names == {"pyarrow"}


def test_two_landings_of_one_queue_lose_nothing_between_them(spark, daemon, judged, tmp_path):
    """Each lands what it sees before either settles; nothing is in neither."""
    judged.send(6)
    other = []

    def land_elsewhere(_):
        if not other:
            other.append(land(daemon.url, "parcels", tmp_path / "other", session=spark))

    land(
        daemon.url, "parcels", tmp_path / "one", session=spark, report=land_elsewhere,
        bytes_per_batch="100KiB",
    )  # fmt: skip

    rows = [_ids(tmp_path / name) for name in ("one", "other")]
    sent = {json.loads(line)["id"] for line in judged.ledger.read_text().splitlines()}
    assert set(rows[0]) | set(rows[1]) == sent
    assert all(len(each) == len(set(each)) for each in rows)
    assert other
    assert judged.queue.info().message_count == 0


class PurgingSettler(ManagerSettler):
    """Somebody purges the queue between the commit and the settling of the first batch."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.purged = 0

    def settle(self, key, reached):
        if not self.purged:
            with dray.connect(self.url) as manager:
                self.purged = manager.queue("parcels").purge()
        return super().settle(key, reached)


def test_a_queue_purged_under_a_landing_keeps_what_had_landed_and_lands_what_comes(
    spark, daemon, parcels, *, out
):
    sent = [parcels.send(bytes([number]) * 25_000) for number in range(4)]
    reader = spark.readStream.format("dray").option("url", daemon.url).option("content", "large")
    reader = reader.option("queue", "parcels").option("maxOffsetsPerTrigger", "2")
    rows = reader.option("markTaken", "true").option("failOnDataLoss", "false").load()
    settler = PurgingSettler(daemon.url)

    Landing(out, ManagerPuller(), settler).run(rows)
    settler.close()
    sent.append(parcels.send(b"later"))
    summary = land(daemon.url, "parcels", out, session=spark, as_="large")

    assert settler.purged
    assert summary.files == 1
    assert _ids(out) == [*sent[:2], sent[4]]


def _ids(out):
    from tests.spark.judge import rows_in_order

    return [row["sequence_id"] for row in rows_in_order(out)]
