"""What Spark makes of an error becomes one sentence again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dray.errors import DrayError, LargeMessageCorrupt, QueueNotFound, StoreLocked
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


PROGRAM = """
import sys
import tempfile
from pathlib import Path

import dray

from dray.spark import spark_session

sys.tracebacklimit = 0
url = sys.argv[1]


def told(act):
    try:
        act()
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)
        print("----", file=sys.stderr)


def load(reader, **options):
    return reader.format("dray").options(**({"url": url, "queue": "orders"} | options)).load()


def stream(**options):
    rows = load(spark.readStream, **options)
    query = rows.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()


def two_queries_on_one_checkpoint():
    checkpoint = tempfile.mkdtemp()
    offsets = Path(checkpoint) / "offsets"

    def other(rows, batch_id):
        # As a second query does that was started in another process.
        (offsets / str(batch_id + 1)).write_bytes((offsets / str(batch_id)).read_bytes())

    with dray.connect(url) as manager:
        for _ in range(2):
            manager.queue("orders").send(b"x")
        rows = load(spark.readStream, maxOffsetsPerTrigger="1")
        writer = rows.writeStream.foreachBatch(other).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def deleted_under_a_query():
    with dray.connect(url) as manager:
        queue = manager.create_queue("gone")
        for _ in range(2):
            queue.send(b"x")
        rows = load(spark.readStream, queue="gone", maxOffsetsPerTrigger="1")
        writer = rows.writeStream.foreachBatch(lambda rows, batch: manager.delete_queue("gone"))
        writer.trigger(availableNow=True).start().awaitTermination()


with spark_session() as spark:
    told(lambda: load(spark.read, queu="x"))
    told(lambda: load(spark.read, url="dray://127.0.0.1:1").count())
    told(lambda: load(spark.read, queue="nowhere").count())
    told(lambda: load(spark.read, url="http://x").count())
    told(lambda: load(spark.read, startingOffsets="latest").count())
    told(lambda: stream(queue="nowhere"))
    told(lambda: stream(url="dray://127.0.0.1:1"))
    told(lambda: stream(endingOffsets="latest"))
    told(two_queries_on_one_checkpoint)
    told(deleted_under_a_query)
"""
KINDS = [
    "InvalidConfiguration", "ConnectionLost", "QueueNotFound", "InvalidConfiguration",
    "InvalidConfiguration", "QueueNotFound", "ConnectionLost", "InvalidConfiguration",
    "StoreLocked", "QueueNotFound",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_every_error_of_reading_is_one_sentence_in_at_most_six_lines(daemon, manager):
    manager.create_queue("orders")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, daemon.url],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    told = [part.strip().splitlines() for part in done.stderr.split("----")[:-1]]
    assert [lines[-1].split()[0] for lines in told] == KINDS, done.stderr
    assert max(map(len, told)) <= 6, done.stderr
    assert "\tat " not in done.stderr
