"""What Spark makes of an error becomes one sentence again."""

from __future__ import annotations

import json
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.errors import (
    ConnectionLost,
    DrayError,
    InvalidConfiguration,
    LargeMessageCorrupt,
    QueueNotFound,
    StoreCorrupt,
    StoreLocked,
)
from dray.spark.failure import plainly

STACK = f"""[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
pyspark.errors.exceptions.captured.PythonException: Traceback (most recent call last):
  File "worker.py", line 3, in main
    raise
{QueueNotFound.__module__}.QueueNotFound: there is no queue 'x' here; create it

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_ours_is_found_in_a_stack_of_others():
    found = plainly(RuntimeError(STACK))

    assert type(found) is QueueNotFound
    assert str(found) == "there is no queue 'x' here; create it"


def test_an_error_of_ours_stays_as_it_is():
    error = LargeMessageCorrupt("bad", sequence_id="x")

    assert plainly(error) is error


def test_an_error_of_others_is_told_in_one_line():
    found = plainly(RuntimeError("\n\n  out of memory\nat org.apache\n"))

    assert type(found) is DrayError
    assert str(found) == "Spark ended the query with RuntimeError: out of memory"


def test_a_checkpoint_of_two_queries_is_told_in_one_sentence_with_what_to_do():
    found = plainly(
        RuntimeError(
            "[STREAM_FAILED] Query [id = 1] terminated with exception:"
            " [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.\n\tat org.apache"
        )
    )

    assert type(found) is StoreLocked
    assert "give each query a checkpointLocation of its own" in str(found)


def test_what_is_left_of_a_query_that_ended_as_it_began_is_told_with_what_to_do():
    found = plainly(
        RuntimeError(
            "[STREAM_FAILED] Query [id = 1] terminated with exception:"
            " [STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The checkpoint location"
            " file:/checkpoints/orders/offsets should be empty on batch 0\nPlease either use"
        )
    )

    assert type(found) is StoreCorrupt
    assert found.file == "/checkpoints/orders/offsets"
    assert "remove the directory /checkpoints/orders and start again" in str(found)


def test_a_checkpoint_that_was_moved_away_under_its_query_is_told_with_what_to_do():
    found = plainly(
        RuntimeError(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: File"
            " file:/landed/_dray/checkpoint-auto/offsets does not exist SQLSTATE: XXKST"
        )
    )

    assert type(found) is StoreCorrupt
    assert found.file == "/landed/_dray/checkpoint-auto/offsets"
    assert "put it back, or start the query at its new place" in str(found)


LINES_MAX = 6


@pytest.fixture
def reading(spark, daemon):
    """Load from the queue "orders", or as the options say."""

    def load(reader, **options):
        given = {"url": daemon.url, "queue": "orders"} | options
        return reader.format("dray").options(**given).load()

    def batch(**options):
        load(spark.read, **options).count()

    def stream(each_batch, checkpoint="", **options):
        writer = load(spark.readStream, **options).writeStream.foreachBatch(each_batch)
        named = {"checkpointLocation": checkpoint} if checkpoint else {}
        writer.options(**named).trigger(availableNow=True).start().awaitTermination()

    return batch, stream


@pytest.mark.spark
@pytest.mark.slow
def test_every_error_of_reading_is_one_sentence_in_at_most_six_lines(
    spark, manager, reading, tmp_path
):
    batch, stream = reading
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    orders, gone = manager.create_queue("orders"), manager.create_queue("gone")
    for queue in (orders, gone, orders, gone):
        queue.send(b"x")
    offsets = tmp_path / "offsets"

    def nothing(rows, batch_id):
        raise AssertionError("no batch")

    def as_another_query(rows, batch_id):
        # As a second query does that was started in another process.
        (offsets / str(batch_id + 1)).write_bytes((offsets / str(batch_id)).read_bytes())

    def delete(rows, batch_id):
        manager.delete_queue("gone")

    def with_empty(name):
        """A checkpoint with an empty file, as a power failure or a kill leaves it."""
        checkpoint = Path(tempfile.mkdtemp(dir=tmp_path))
        (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        (checkpoint / "offsets").mkdir()
        (checkpoint / "offsets" / name).touch()
        return str(checkpoint)

    one = {"maxOffsetsPerTrigger": "1"}
    cases = [
        (InvalidConfiguration, lambda: batch(queu="x")),
        (ConnectionLost, lambda: batch(url="dray://127.0.0.1:1")),
        (QueueNotFound, lambda: batch(queue="nowhere")),
        (InvalidConfiguration, lambda: batch(url="http://x")),
        (InvalidConfiguration, lambda: batch(startingOffsets="latest")),
        (QueueNotFound, lambda: stream(nothing, queue="nowhere")),
        (ConnectionLost, lambda: stream(nothing, url="dray://127.0.0.1:1")),
        (InvalidConfiguration, lambda: stream(nothing, endingOffsets="latest")),
        (StoreLocked, lambda: stream(as_another_query, checkpoint=str(tmp_path), **one)),
        (QueueNotFound, lambda: stream(delete, queue="gone", **one)),
        (StoreCorrupt, lambda: stream(nothing, checkpoint=with_empty("0"))),
        (StoreCorrupt, lambda: stream(nothing, checkpoint=with_empty(".0.x.tmp"))),
    ]
    for number, (kind, act) in enumerate(cases):
        with said_by(java) as noise, pytest.raises(DrayError) as caught:
            act()
        told = str(caught.value).splitlines() + noise
        assert type(caught.value) is kind, (number, caught.value)
        assert len(told) <= LINES_MAX, (number, told)
        assert not [line for line in told if line.startswith("\tat ")], (number, told)


@contextmanager
def said_by(process):
    """The lines that a process adds to its standard error, which is a file that pytest captures."""
    error, lines = Path(f"/proc/{process}/fd/2"), []
    before = error.stat().st_size if error.is_file() else None
    yield lines
    if before is not None:
        lines += error.read_bytes()[before:].decode(errors="replace").splitlines()
