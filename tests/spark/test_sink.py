"""Writing from Spark into queues, once: judged by what a plain client finds in the queues."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import dray
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.sink.writers import BatchSink
from dray.spark.source.data_source import DraySource

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = Path(__file__).with_name("sink_and_die.py")
FILES, LINES = 3, 40


@pytest.fixture
def rows(manager):
    """The queue that gets the rows."""
    return manager.create_queue("rows")


@pytest.fixture
def texts(tmp_path):
    """Files of lines, each a micro-batch; every line is there once."""
    directory = tmp_path / "texts"
    directory.mkdir()
    for number in range(FILES):
        add_text(directory, number)
    return directory


def add_text(directory, number):
    lines = [f"file {number} line {line}" for line in range(LINES)]
    path = directory / f"{number}.txt"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_700_000_000 + number,) * 2)


def every_line(files=FILES):
    return Counter(f"file {n} line {line}".encode() for n in range(files) for line in range(LINES))


def what_is_in(queue):
    return Counter(bytes(message.body) for message in queue.messages())


@pytest.fixture
def run_stream(spark, daemon, texts, tmp_path):
    """Let the query run over everything that is there; its checkpoint is kept."""

    def run_now(*, partitions=3, change=None, **options):
        lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(texts))
        lines = lines.withColumnRenamed("value", "body").repartition(partitions)
        writer = (change(lines) if change else lines).writeStream.format("dray")
        writer = writer.option("url", daemon.url).option("queue", "rows").options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    run_now.url = daemon.url
    return run_now


def forget_last(tmp_path, *logs):
    """Remove the last entry of logs of the checkpoint, as a power cut may."""
    for log in logs:
        directory = tmp_path / "checkpoint" / log
        last = max(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
        (directory / str(last)).unlink()
        (directory / f".{last}.crc").unlink(missing_ok=True)


def test_a_table_becomes_messages_of_one_transaction(spark, daemon, manager, rows):
    manager.create_queue("others")
    table = spark.createDataFrame(
        [
            (bytearray(b"one"), "first", "c1", 7, "rows"),
            (bytearray(b"two"), None, None, None, None),
            (bytearray(b""), "", "c3", -1, "others"),
        ],
        "body binary, label string, correlation_id string, app_specific int, queue string",
    )
    writer = table.repartition(2).write.format("dray").mode("append")
    writer.option("url", daemon.url).option("queue", "rows").save()

    found = {bytes(message.body): message for message in rows.messages()}
    assert sorted(found) == [b"one", b"two"]
    one, two = found[b"one"], found[b"two"]
    assert (one.label, one.correlation_id, one.app_specific) == ("first", "c1", 7)
    assert (two.label, two.correlation_id, two.app_specific) == ("", None, 0)
    (other,) = manager.queue("others").messages()
    assert (bytes(other.body), other.correlation_id, other.app_specific) == (b"", "c3", -1)
    assert len({one.transaction_id, two.transaction_id, other.transaction_id}) == 1
    assert manager.prepared() == []


def test_each_batch_of_a_stream_is_one_transaction(run_stream, manager, rows):
    run_stream()
    assert what_is_in(rows) == every_line()
    by_transaction = Counter(message.transaction_id for message in rows.messages())
    assert sorted(by_transaction.values()) == [LINES] * FILES
    assert rows.info().staged_count == 0


def test_a_lost_commit_entry_of_the_checkpoint_changes_no_count(run_stream, tmp_path, texts, rows):
    run_stream(partitions=3)
    forget_last(tmp_path, "commits")
    run_stream(partitions=2)
    assert what_is_in(rows) == every_line()
    forget_last(tmp_path, "commits")
    add_text(texts, FILES)
    run_stream(partitions=1)
    assert what_is_in(rows) == every_line(FILES + 1)


@pytest.mark.torture
def test_a_stream_that_has_lost_its_checkpoint_sends_nothing_twice_under_its_query_id(
    run_stream, tmp_path, rows
):
    run_stream(query_id="mine")
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="is older than"):
        run_stream(query_id="mine")
    assert (what_is_in(rows), rows.info().staged_count) == (every_line(), 0)


@pytest.mark.torture
def test_an_empty_offsets_file_ends_a_stream_and_sends_nothing_twice(run_stream, tmp_path, rows):
    run_stream()
    forget_last(tmp_path, "commits")
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    newest.write_bytes(b"")
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=newest.name):
        run_stream()
    assert (what_is_in(rows), rows.info().staged_count) == (every_line(), 0)


def test_a_batch_that_is_planned_again_over_other_rows_is_an_error(
    run_stream, tmp_path, texts, rows
):
    run_stream()
    forget_last(tmp_path, "commits", "offsets")
    sources = tmp_path / "checkpoint" / "sources" / "0"
    (sources / str(FILES - 1)).unlink()
    (sources / f".{FILES - 1}.crc").unlink()
    add_text(texts, FILES)
    (texts / f"{FILES - 1}.txt").unlink()
    with pytest.raises(Exception, match="with other rows"):
        run_stream()
    assert what_is_in(rows) == every_line()
    assert rows.info().staged_count == 0


def test_a_batch_written_twice_inside_foreach_batch_is_sent_once(spark, daemon, rows):
    table = spark.createDataFrame([(f"row {at}",) for at in range(30)], "body string")

    def write(partitions, batch_id, of=table):
        writer = of.repartition(partitions).write.format("dray").mode("append")
        writer = writer.option("url", daemon.url).option("queue", "rows")
        writer.option("query_id", "of my own").option("batch_id", batch_id).save()

    write(1, 4)
    write(3, 4)
    assert what_is_in(rows) == Counter(f"row {at}".encode() for at in range(30))
    with pytest.raises(Exception, match="with other rows"):
        write(2, 4, table.limit(29))
    with pytest.raises(Exception, match="is older than"):
        write(1, 3)
    write(2, 5)
    assert set(what_is_in(rows).values()) == {2}


def test_files_that_rows_name_arrive_as_large_messages(spark, daemon, parcels, tmp_path):
    chance = random.Random(3)
    bodies = [chance.randbytes(size) for size in (0, 10, 9_000_000)]
    named = []
    for number, body in enumerate(bodies):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(body)
        named.append((str(path), f"file {number}"))
    table = spark.createDataFrame(named, "path string, label string")
    for partitions in (1, 2):
        writer = table.repartition(partitions).write.format("dray").mode("append")
        writer = writer.option("url", daemon.url).option("queue", "parcels")
        writer.option("query_id", "files").option("batch_id", 0).save()

    found = {}
    for _ in bodies:
        with parcels.receive(timeout=0) as message:
            found[message.label] = message.body()
    assert found == {f"file {number}": body for number, body in enumerate(bodies)}
    with pytest.raises(dray.ReceiveTimeout):
        parcels.receive(timeout=0)


def test_a_task_that_is_tried_again_sends_its_rows_once(run_stream, rows):
    def fail_at_first(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            raise RuntimeError("the first attempt fails behind its last row")

    run_stream(change=lambda lines: lines.mapInArrow(fail_at_first, "body string"))
    assert what_is_in(rows) == every_line()
    assert rows.info().staged_count == 0


def test_a_worker_process_that_is_killed_when_it_has_staged_sends_its_rows_once(
    spark, daemon, rows, tmp_path
):
    """The driver has not heard of the task, and has it done again (torture: a whole executor)."""
    killed = str(tmp_path / "killed")

    class KilledSink(BatchSink):
        def write(self, iterator):
            told = super().write(iterator)
            try:
                Path(killed).touch(exist_ok=False)
            except FileExistsError:
                return told
            return os.kill(os.getpid(), signal.SIGKILL)

    class KilledSource(DraySource):
        @classmethod
        def name(cls):
            return "killed"

        def writer(self, schema, overwrite):
            return KilledSink(
                read_sink_options(self.options, schema, overwrite=overwrite, stream=False)
            )

    spark.dataSource.register(KilledSource)
    table = spark.range(40).selectExpr("cast(id as string) body").repartition(2)
    writer = table.write.format("killed").mode("append").option("url", daemon.url)
    writer.option("queue", "rows").save()

    assert Path(killed).exists()
    assert what_is_in(rows) == Counter(str(number).encode() for number in range(40))
    assert rows.info().staged_count == 0


def test_a_job_that_fails_leaves_nothing_in_sight(spark, daemon, rows):
    def fail(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 1:
            raise RuntimeError("this task always fails")

    table = spark.range(20).selectExpr("cast(id as string) body").repartition(2)
    writer = table.mapInArrow(fail, "body string").write.format("dray").mode("append")
    with pytest.raises(Exception, match="always fails"):
        writer.option("url", daemon.url).option("queue", "rows").save()
    assert (what_is_in(rows), rows.info().staged_count) == (Counter(), 0)


def test_a_manager_that_is_killed_in_mid_batch_gets_each_row_once(
    run_stream, daemon, rows, tmp_path
):
    killed = threading.Event()
    flag, process = str(tmp_path / "killed"), daemon.process.pid

    def kill_in_mid_batch(batches):
        for batch in batches:
            yield batch
            if batch.num_rows and not Path(flag).exists():
                Path(flag).touch()
                os.kill(process, signal.SIGKILL)

    def bring_back():
        daemon.process.wait(300)
        daemon.process.stdout.close()
        daemon.start()
        killed.set()

    keeper = threading.Thread(target=bring_back)
    keeper.start()
    run_stream(change=lambda lines: lines.mapInArrow(kill_in_mid_batch, "body string"))
    keeper.join(300)
    assert killed.is_set()
    assert what_is_in(rows) == every_line()


@pytest.mark.torture
def test_a_manager_that_stays_away_ends_a_query_and_the_next_one_sends_each_row_once(
    run_stream, daemon, rows, tmp_path
):
    """Tasks, and Spark's own attempts at them, wait for longer than half a minute."""
    flag, process = str(tmp_path / "killed"), daemon.process.pid

    def kill_in_mid_batch(batches):
        for batch in batches:
            yield batch
            if batch.num_rows and not Path(flag).exists():
                Path(flag).touch()
                os.kill(process, signal.SIGKILL)

    with pytest.raises(Exception, match=r"is `dray serve` running there|closed"):
        run_stream(change=lambda lines: lines.mapInArrow(kill_in_mid_batch, "body string"))
    daemon.end()
    daemon.start()
    run_stream()

    assert what_is_in(rows) == every_line()
    assert rows.info().staged_count == 0


@pytest.mark.torture
@pytest.mark.parametrize(
    "point",
    ["unread", "staged", "sent", "committed"],
)
def test_a_driver_killed_before_the_read_or_around_its_commit_sends_each_row_once(
    run_stream, rows, texts, point
):
    checkpoint = texts.parent / "checkpoint"
    command = [sys.executable, str(DRIVER), run_stream.url, str(texts), str(checkpoint)]
    died = subprocess.run([*command, point], capture_output=True, timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert not (checkpoint / "commits" / "1").exists()
    before = what_is_in(rows)
    if point == "committed":
        assert before == every_line(2)
    if point == "unread":
        assert (before, rows.info().staged_count) == (every_line(1), 0)
    if point == "staged":
        assert (before, rows.info().staged_count) == (every_line(1), LINES)

    run_stream()

    assert what_is_in(rows) == every_line()
    assert rows.info().staged_count == 0
