"""A Spark job shows a token: it reads, settles and writes what the token's rights allow."""

from __future__ import annotations

import re

import pytest

import dray
from dray.spark import settling
from tests.integration.commands import dray as command
from tests.integration.commands import started

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RULES = """
[[access]]
who = ["token:job"]
queues = ["orders", "results"]
may = ["receive", "send"]
"""


@pytest.fixture
def door(tmp_path):
    """A queue manager that lets in holders of a token: its address, and its owner's connection."""
    data = tmp_path / "data"
    (tmp_path / "dray.toml").write_text(
        f'data = "{data}"\nlisten = "127.0.0.1:0"\nsocket = "{data}/dray.sock"\n{RULES}'
    )
    for name in ("job", "stranger"):
        token = command("token", "create", name, "--data", data).assert_good().out
        (tmp_path / f"{name}.token").write_text(token)
        (tmp_path / f"{name}.token").chmod(0o600)
        (tmp_path / f"{name}.toml").write_text(f'token_file = "{name}.token"\n')
    with started("serve", "--config", tmp_path / "dray.toml") as process:
        address = re.search(rb"dray://\S+", process.stdout.readline())[0].decode()
        with dray.connect(f"dray+unix://{data}/dray.sock") as owner:
            owner.create_queue("orders").send_many([b"a", b"b"])
            owner.create_queue("results")
            yield address, owner


def test_a_job_reads_settles_and_writes_by_its_token(spark, door, tmp_path):
    address, owner = door
    named = {"url": address, "credentials": str(tmp_path / "job.toml")}

    def write(rows, batch_id):
        chosen = rows.select("body").write.format("dray").mode("append")
        chosen.options(**named, queue="results", query_id="q", batch_id=str(batch_id)).save()

    rows = spark.readStream.format("dray").options(**named, queue="orders").load()
    query = (
        rows.writeStream.foreachBatch(settling(write))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert owner.queue("orders").info().message_count == 0
    assert sorted(each.body for each in owner.queue("results").messages()) == [b"a", b"b"]


def test_a_job_with_a_token_without_rights_is_refused_in_our_sentence(spark, door, tmp_path):
    address, owner = door
    credentials = str(tmp_path / "stranger.toml")
    rows = spark.read.format("dray").options(url=address, credentials=credentials, queue="orders")
    with pytest.raises(Exception, match="token:stranger may not do anything here"):
        rows.load().count()
    assert owner.queue("orders").info().message_count == 2
