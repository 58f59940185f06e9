"""A Spark job shows a token: it reads, settles and writes what the token's rights allow."""

from __future__ import annotations

import re

import pytest

import dray
from dray.spark import audit, land, open_payload, settling
from tests.integration.commands import dray as command
from tests.integration.commands import started

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RULES = """
[[access]]
who = ["token:job"]
queues = ["orders", "results*"]
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


def test_a_landing_an_audit_and_a_payload_show_their_token(spark, door, tmp_path):
    address, owner = door
    job, stranger = tmp_path / "job.toml", tmp_path / "stranger.toml"
    parcels = dray.LargeMessageQueue(owner.create_queue("results-large"))
    parcels.send(b"x" * 70_000)
    out = tmp_path / "out"
    queues = "orders,results-large"
    with pytest.raises(dray.DrayError, match="token:stranger may not") as refused:
        land(address, queues, out, session=spark, credentials=stranger)
    assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(dray.DrayError, match="show a token"):
        land(address, queues, out, session=spark)

    rows = spark.read.format("dray").options(url=address, credentials=job, queue="results-large")
    (row,) = rows.option("content", "large").load().collect()
    with open_payload(row, credentials=job) as file:
        assert file.read() == b"x" * 70_000
    summary = land(address, queues, out, session=spark, credentials=job)
    assert (summary.files, summary.messages, summary.clean) == (1, 2, True)
    assert audit([out, (address, "orders")], session=spark, credentials=job).clean
    assert owner.queue("orders").info().message_count == 0


def test_the_command_takes_credentials_and_refuses_what_executors_would_not_have(tmp_path):
    land_now = ("spark", "land", "orders", "--to", tmp_path / "out")
    missing = command("--url", "drays://x:1", *land_now, "--credentials", tmp_path / "none.toml")
    assert "all executors need this TOML file" in missing.err
    refused = command("--token-file", tmp_path / "t", *land_now)
    assert "give it with --credentials" in refused.err
    assert not (tmp_path / "out").exists()
