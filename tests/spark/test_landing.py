"""Landing, from a queue that is a directory: files, table, settling, and what a second run adds."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from dray.errors import LargeMessageCorrupt, StoreCorrupt, StoreError, StoreLocked
from dray.spark.landing.landing import Landing
from tests.spark.judge import rows_in_order
from tests.spark.local_queue import LocalPuller, LocalQueue, LocalSettler

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOSTILE = [
    "../../escape",
    "/absolute",
    "",
    "x" * 300,
    "same",
    "same",
    ".hidden",
    "a\x00b\nc",
    "..",
    "ö\\u.txt",
]


@pytest.fixture
def queue(tmp_path):
    return LocalQueue(tmp_path / "queue")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def land(spark, queue, out, *, at_once=1000, report=None):
    """Land what is there now."""
    reader = spark.readStream.format("localqueue").option("directory", str(queue.directory))
    rows = reader.option("atOnce", str(at_once)).load()
    return Landing(out, LocalPuller(), LocalSettler(), report).run(rows)


def table(out):
    return rows_in_order(out)


def assert_landed_once(queue, out):
    """Every message of the queue has one row and its very payload, and nothing else is there."""
    rows = table(out)
    expected = {row["sequence_id"]: row for row in queue.rows}
    assert sorted(row["sequence_id"] for row in rows) == sorted(expected)
    names = {row["payload"] for row in rows if row["state"] == "landed"}
    assert {path.name for path in (out / "payload").iterdir()} == names
    for row in rows:
        if row["state"] == "landed":
            content = (out / "payload" / row["payload"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == expected[row["sequence_id"]]["digest"]


def test_whatever_labels_say_payloads_stay_in_their_directory(spark, queue, out, tmp_path):
    for number, label in enumerate(HOSTILE):
        queue.add(f"payload {number}".encode() * 500, label)
    before = sorted(path.name for path in tmp_path.iterdir())

    summary = land(spark, queue, out)

    assert_landed_once(queue, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "out"])
    assert (summary.files, summary.holes, summary.duplicates) == (len(HOSTILE), [], 0)
    assert summary.bytes == sum(row["size"] for row in queue.rows)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]
    assert [row["position_in_transaction"] for row in table(out)] == list(range(1, 11))


def test_a_second_run_lands_only_what_is_new(spark, queue, out):
    queue.add(b"first")
    land(spark, queue, out)
    queue.add(b"second")

    summary = land(spark, queue, out)

    assert_landed_once(queue, out)
    assert (summary.files, summary.replayed) == (1, 0)


def test_a_lost_checkpoint_neither_loses_nor_repeats(spark, queue, out):
    for number in range(5):
        queue.add(b"%d" % number)
    land(spark, queue, out, at_once=2)
    (queue.directory / "settled").unlink()
    shutil.rmtree(out / "_dray" / "checkpoint")
    queue.add(b"one more")

    summary = land(spark, queue, out, at_once=4)

    assert_landed_once(queue, out)
    # The fifth was settled together with the first four: the table knew that it had landed.
    assert (summary.files, summary.replayed, summary.duplicates) == (1, 4, 0)


def test_losing_the_last_commit_of_the_checkpoint_loses_no_message(spark, queue, out):
    for number in range(4):
        queue.add(b"%d" % number)
    land(spark, queue, out, at_once=2)
    commits = sorted((out / "_dray" / "checkpoint" / "commits").glob("[0-9]*"))
    offsets = sorted((out / "_dray" / "checkpoint" / "offsets").glob("[0-9]*"))
    for path in (commits[-1], offsets[-1]):
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    for number in range(4, 9):
        queue.add(b"%d" % number)

    land(spark, queue, out, at_once=5)

    assert_landed_once(queue, out)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]


@pytest.mark.parametrize("emptied", ["commits", "offsets"])
def test_an_empty_file_of_the_checkpoint_is_refused_and_without_it_all_lands_once(
    spark, queue, out, emptied
):
    """A failure of power may leave the newest file of Spark's checkpoint without content."""
    for number in range(4):
        queue.add(b"%d" % number)
    land(spark, queue, out, at_once=2)
    checkpoint = out / "_dray" / "checkpoint"
    newest = max((checkpoint / emptied).glob("[0-9]*"))
    newest.write_bytes(b"")
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    if emptied == "offsets":
        (checkpoint / "commits" / newest.name).unlink()
    for number in range(4, 9):
        queue.add(b"%d" % number)

    with pytest.raises(StoreCorrupt) as caught:
        land(spark, queue, out)
    assert str(caught.value) == (
        f"Spark's checkpoint has a damaged file, {newest}, as a power failure leaves one behind;"
        f" remove the directory {checkpoint} and start again: the queue has what was not settled"
    )
    shutil.rmtree(checkpoint)
    land(spark, queue, out, at_once=5)

    assert_landed_once(queue, out)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]


def test_what_a_kill_left_of_a_first_batch_does_not_stop_a_landing(spark, queue, out):
    """Spark writes its first offsets beside their place, and refuses a checkpoint with the rest."""
    queue.add(b"first")
    offsets = out / "_dray" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.0a77b3c4-3ff5-4f36-8aa5-17b4cd5a7af8.tmp").write_bytes(b"v1")

    land(spark, queue, out)

    assert_landed_once(queue, out)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]


class OverlappingSettler(LocalSettler):
    """While it settles the first batch, the Java of a killed driver plans the second one."""

    def __init__(self, out):
        self.offsets = out / "_dray" / "checkpoint" / "offsets"

    def settle(self, *given):
        if not (self.offsets / "1").exists():
            (self.offsets / "1").write_bytes((self.offsets / "0").read_bytes())
        return super().settle(*given)


def test_a_landing_goes_on_when_the_java_of_a_killed_driver_overlaps_it(spark, queue, out, caplog):
    for number in range(4):
        queue.add(b"%d" % number)
    reader = spark.readStream.format("localqueue").option("directory", str(queue.directory))
    rows = reader.option("atOnce", "2").load()

    Landing(out, LocalPuller(), OverlappingSettler(out)).run(rows)

    assert_landed_once(queue, out)
    assert queue.settled == queue.rows[-1]["last_lookup_id"]
    assert "another query writes into the same checkpoint" in caplog.text


def test_the_same_message_twice_in_the_queue_lands_once_and_is_told(spark, queue, out):
    queue.add(b"once", number=7)
    queue.add(b"other", number=8)
    queue.add(b"once", number=7)

    summary = land(spark, queue, out)

    assert (summary.files, summary.duplicates) == (2, 1)
    assert len(table(out)) == 2
    assert queue.settled == queue.rows[-1]["last_lookup_id"]


def test_a_hole_becomes_a_row_and_the_rest_lands(spark, queue, out):
    queue.add(b"a", "whole")
    queue.add(b"b", "holed", missing=["2-3", "trailer"])
    queue.add(b"c", "whole too")

    summary = land(spark, queue, out)

    assert_landed_once(queue, out)
    assert [(row["label"], row["state"]) for row in table(out)] == [
        ("whole", "landed"),
        ("holed", "hole"),
        ("whole too", "landed"),
    ]
    assert summary.files == 2
    assert [(hole.label, hole.missing) for hole in summary.holes] == [("holed", ("2-3", "trailer"))]


def test_what_came_in_the_wrong_order_is_counted(spark, queue, out):
    for number in (5, 9, 7):
        queue.add(b"%d" % number, number=number)

    assert land(spark, queue, out).out_of_order == 1


def test_a_payload_with_the_wrong_digest_is_not_landed(spark, queue, out):
    queue.add(b"right", digest="0" * 64)

    with pytest.raises(LargeMessageCorrupt) as caught:
        land(spark, queue, out)

    assert "nothing was kept" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list((out / "payload").iterdir()) == []
    assert queue.settled == 0


def test_a_payload_left_by_a_crashed_attempt_is_kept_only_if_it_is_the_right_one(spark, queue, out):
    queue.add(b"whole", "one")
    land(spark, queue, out)
    payload = next((out / "payload").iterdir())
    finished_at = payload.stat().st_mtime_ns
    (queue.directory / "settled").unlink()
    (out / "table").unlink()
    shutil.rmtree(out / "_dray")
    (out / "payload" / ".left.123.partial").write_bytes(b"junk")

    land(spark, queue, out)

    assert_landed_once(queue, out)
    assert payload.stat().st_mtime_ns == finished_at
    payload.write_bytes(b"wrong")
    (queue.directory / "settled").unlink()
    (out / "table").unlink()
    shutil.rmtree(out / "_dray")
    land(spark, queue, out)
    assert_landed_once(queue, out)


def test_two_landings_into_one_directory_do_not_meet(spark, queue, out):
    queue.add(b"body")
    refused = []

    def second(_):
        with pytest.raises(StoreLocked) as caught:
            land(spark, queue, out)
        refused.append(str(caught.value))

    land(spark, queue, out, report=second)

    assert len(refused) == 1
    assert "another landing works in" in refused[0]


class ElsewherePuller(LocalPuller):
    """Pulls as an executor does whose directory the driver does not see, or sees late."""

    def __init__(self, hides):
        self.hides = hides

    def close(self):
        for payload in Path(self.hides).iterdir():
            payload.rename(f"{self.hides}.{payload.name}")


def test_payloads_that_the_driver_does_not_see_are_an_error_and_nothing_is_settled(
    spark, queue, out
):
    queue.add(b"one")
    reader = spark.readStream.format("localqueue").option("directory", str(queue.directory))
    landing = Landing(out, ElsewherePuller(str(out / "payload")), LocalSettler())

    with pytest.raises(StoreError, match=r"directory that the driver and all executors share"):
        landing.run(reader.load())

    assert not table(out)
    assert not queue.settled
    # Once the directory is shared, the landing goes on.
    land(spark, queue, out)
    assert_landed_once(queue, out)


def test_a_directory_that_cannot_be_made_is_one_clear_sentence(spark, queue, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=r"cannot write .*file/out: Not a directory"):
        land(spark, queue, tmp_path / "file" / "out")
