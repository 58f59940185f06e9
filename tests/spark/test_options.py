"""Options and offsets: read once, checked, refused in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructType

from dray.cli.commands.spark import land as land_command
from dray.errors import InvalidConfiguration, QueueRecreated
from dray.spark import BYTES_PER_BATCH, land
from dray.spark.landing.outs import directory_of
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.source.batch import BatchReader
from dray.spark.source.data_source import DraySource
from dray.spark.source.offsets import (
    QueueBirth,
    QueueSpan,
    check_birth,
    check_offsets,
    lost,
    position_in,
    spans,
    went_back,
    with_position,
)
from dray.spark.source.options import read_options
from dray.spark.source.reader import StreamReader

LEAST = {"url": "dray://127.0.0.1", "queue": "orders"}
MANY = "9" * 5_000


def at(*, born=1, lookup_id=1):
    """Offsets with one queue."""
    return {"m": {"q": {"born": born, "lookup_id": lookup_id}}}


def test_keys_are_taken_in_any_case_and_lists_apart():
    options = read_options(
        {
            "URL": "dray://a, dray://b",
            "queue": "orders, parcels*",
            "MAXOFFSETSPERTRIGGER": "7",
            "maxbytespertrigger": "8MiB",
            "Content": "LARGE",
            "startingoffsets": '{"m": {"orders": {"born": 8, "lookup_id": 5}}}',
            "failOnDataLoss": "False",
        }
    )

    assert options.urls == ("dray://a", "dray://b")
    assert options.queues == ("orders", "parcels*")
    assert (options.rows_max, options.bytes_max) == (7, 8 << 20)
    assert options.content == "large"
    assert options.starting == {"m": {"orders": {"born": 8, "lookup_id": 5}}}
    assert options.fail_on_data_loss is False
    assert options.accept_new_queue is True


def test_without_a_url_it_is_that_of_the_environment_else_the_link_of_the_account(monkeypatch):
    """As of `dray.connect()` and of commands."""
    monkeypatch.delenv("DRAY_URL", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    link = "dray+unix:///run/user/1000/dray.sock"
    rows = StructType().add("body", BinaryType())
    for url in (link, "drays://depot:7340"):
        assert read_options({"queue": "orders"}).urls == (url,)
        options = read_sink_options({"queue": "orders"}, rows, overwrite=False, stream=True)
        assert options.url == url
        monkeypatch.setenv("DRAY_URL", "drays://depot:7340")


def test_the_defaults_are_those_of_the_documentation():
    options = read_options(LEAST)

    assert (options.content, options.inline, options.starting) == ("messages", True, "earliest")
    assert (options.rows_max, options.bytes_max) == (None, None)
    assert options.fail_on_data_loss is True
    assert options.accept_new_queue is False


def test_a_wrong_option_is_told_the_options_that_the_page_has():
    """And none that only a landing gives."""
    page = Path("docs/reference/spark.md").read_text("utf-8").partition("## Reading")[2]
    table = page.partition("| option | value | default |")[2].partition("\n\n")[0]
    options = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    with pytest.raises(InvalidConfiguration) as raised:
        read_options(LEAST | {"nope": "x"})
    told = str(raised.value).partition("it has ")[2].split(", ")
    assert sorted(told) == sorted(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": " , ", "queue": "orders"}, "needs the option 'url'"),
        ({"url": "dray://a", "queue": " , "}, "needs the option 'queue'"),
        (LEAST | {"queu": "x"}, "no option 'queu'"),
        (LEAST | {"content": "files"}, "content is 'files'; it can be messages or large"),
        (LEAST | {"maxOffsetsPerTrigger": "0"}, "must be a whole number above zero"),
        (LEAST | {"maxOffsetsPerTrigger": "ten"}, "must be a whole number above zero"),
        (LEAST | {"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger: 'much' is not a size"),
        (LEAST | {"maxBytesPerTrigger": "0"}, "must be above zero"),
        (LEAST | {"startingOffsets": "first"}, "startingOffsets is 'first'"),
        (LEAST | {"startingOffsets": '{"m": 3}'}, "startingOffsets is"),
        (LEAST | {"startingOffsets": '{"m": {"q": -3}}'}, "startingOffsets is"),
        (LEAST | {"startingOffsets": '{"m": {"q": 3}}'}, '"lookup_id": <lookup id>}}}'),
        (LEAST | {"startingOffsets": '{"m": {"q": {"born": 3}}}'}, "startingOffsets is"),
        (LEAST | {"startingOffsets": "[]"}, "startingOffsets is"),
        (
            LEAST
            | {"startingOffsets": '{"m": {"q": {"born": 3, "lookup_id": 1, "receipt": "a0"}}}'},
            "startingOffsets is",
        ),
        (LEAST | {"acceptNewQueue": "maybe"}, "acceptNewQueue is 'maybe'"),
        (LEAST | {"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
        (LEAST | {"endingOffsets": "earliest"}, "endingOffsets is 'earliest'; it can be latest or"),
        (LEAST | {"startingTimestamp": "noon"}, "startingTimestamp is 'noon'; it can be millisec"),
        (LEAST | {"endingTimestamp": "-5"}, "endingTimestamp is '-5'"),
        (LEAST | {"startingTimestamp": "1", "startingOffsets": "earliest"}, "are both given"),
        (LEAST | {"endingTimestamp": "1", "endingOffsets": "latest"}, "are both given"),
        (LEAST | {"maxTriggerDelay": "5m"}, "minOffsetsPerTrigger, which is not given"),
        (LEAST | {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "5"}, "units ms, s, m, h"),
        (LEAST | {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "0s"}, "maxTriggerDelay is '0s'"),
        (LEAST | {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "the lower of the"),
        (LEAST | {"startingOffsets": "[" * 100_000}, "startingOffsets is '[[[["),
        (LEAST | {"endingOffsets": json.dumps(at(lookup_id=10**30))}, "is '{"),
        (
            LEAST | {"endingOffsets": '{"m": {"q": {"born": ' + MANY + ', "lookup_id": 1}}}'},
            "is '{",
        ),
        (LEAST | {"startingOffsets": json.dumps(at(lookup_id=1e3))}, "is '{"),
        (LEAST | {"startingOffsets": json.dumps(at(born=1 << 63))}, "is '{"),
        (LEAST | {"startingTimestamp": MANY}, "startingTimestamp is '9999"),
        (LEAST | {"endingTimestamp": MANY}, "endingTimestamp is '9999"),
        (LEAST | {"minOffsetsPerTrigger": "1", "maxTriggerDelay": MANY + "ms"}, "units ms, s, m"),
        (LEAST | {"commitEvery": MANY + "ms"}, "units ms, s, m"),
        (LEAST | {"maxOffsetsPerTrigger": MANY}, "at most 18 digits"),
        (LEAST | {"minPartitions": MANY}, "at most 18 digits"),
        (LEAST | {"claimTimeout": MANY}, "at most 18 digits"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(InvalidConfiguration) as caught:
        read_options(given)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_more_tasks_than_a_queue_is_divided_into_are_as_many_as_it_can_be():
    assert read_options(LEAST | {"minPartitions": "4096"}).partitions == 4_096
    assert read_options(LEAST | {"minPartitions": "5000"}).partitions == 4_096


def test_a_landing_goes_on_over_what_is_gone_and_still_refuses_a_queue_made_anew():
    options = read_options(LEAST | {"failOnDataLoss": "false", "acceptNewQueue": "false"})

    assert (options.fail_on_data_loss, options.accept_new_queue) == (False, False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxOffsetsPerTrigger": "3"}, "maxOffsetsPerTrigger limits a micro-batch"),
        ({"maxbytespertrigger": "3MiB"}, "maxBytesPerTrigger limits a micro-batch"),
        ({"minOffsetsPerTrigger": "3"}, "minOffsetsPerTrigger limits a micro-batch"),
        ({"startingOffsets": "latest"}, "reads nothing"),
    ],
)
def test_an_option_that_does_nothing_in_a_batch_is_refused(given, said):
    source = DraySource(LEAST | given)

    assert isinstance(source.streamReader(source.schema()), StreamReader)
    with pytest.raises(InvalidConfiguration, match=said):
        source.reader(source.schema())


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_an_option_that_does_nothing_in_a_stream_is_refused(name):
    source = DraySource(LEAST | {name: "latest" if name.endswith("Offsets") else "1"})

    assert isinstance(source.reader(source.schema()), BatchReader)
    with pytest.raises(InvalidConfiguration, match=f"{name} ends a batch query"):
        source.streamReader(source.schema())


def test_times_are_milliseconds_or_iso_text():
    def read(text):
        return read_options(LEAST | {"startingTimestamp": text}).starting_time

    assert read("1795341600000") == 1_795_341_600
    assert read("2026-11-22T10:00:00Z") == read("2026-11-22T10:00:00") == 1_795_341_600
    assert read("2026-11-22T11:00:00.500+01:00") == 1_795_341_600.5
    given = read_options(LEAST | {"minOffsetsPerTrigger": "9", "maxTriggerDelay": "2 m"})
    assert (given.rows_min, given.trigger_delay_s) == (9, 120)
    assert read_options(LEAST | {"minOffsetsPerTrigger": "9"}).trigger_delay_s == 900


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("memory://x", "a landing into memory://x needs a directory for its table"),
        ("nobody://name/x", "nobody://name/x cannot be used"),
        ("file://other/tmp/x", "file://other/tmp/x names another machine; write file:///path"),
        ("s3:/bucket/x", "cannot land into 's3:/bucket/x'; write s3://bucket/x"),
    ],
)
def test_landing_into_a_url_that_cannot_be_used_is_refused_before_anything_starts(
    out, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfiguration, match=said):
        land("dray://127.0.0.1:1", "orders", out)
    assert not list(tmp_path.iterdir())


def test_a_landing_into_a_directory_has_no_other_one_for_its_state(tmp_path):
    with pytest.raises(InvalidConfiguration, match="state is for payloads that go to a store"):
        land("dray://127.0.0.1:1", "orders", tmp_path, state=tmp_path)


@pytest.mark.parametrize(
    ("out", "directory"),
    [
        ("file:///a/b%20c", Path("/a/b c")),
        ("file:/a/b", Path("/a/b")),
        ("file://localhost/a", Path("/a")),
        ("a/b", Path("a/b")),
        ("/a:/b", Path("/a:/b")),
        ("s3://bucket/x", None),
        ("memory://x", None),
    ],
)
def test_a_file_url_is_a_directory(out, directory):
    assert directory_of(out) == directory


def at(born, lookup_id):
    return {"born": born, "lookup_id": lookup_id}


def test_offsets_know_their_positions():
    offsets = with_position({}, QueueBirth("m", "a", 8), 3)
    offsets = with_position(offsets, QueueBirth("n", "b", 9), 4)

    assert offsets == {"m": {"a": at(8, 3)}, "n": {"b": at(9, 4)}}
    assert position_in(offsets, QueueBirth("m", "a", 8)) == 3
    assert position_in(offsets, QueueBirth("m", "b", 8)) == 0
    assert check_offsets(offsets) is offsets


def test_offsets_without_the_birth_number_of_the_queue_are_refused_in_a_sentence():
    reader = StreamReader(read_options(LEAST))
    before = {"m": {"orders": 10}}

    for planned in (
        lambda: reader.latestOffset(before, ReadAllAvailable()),
        lambda: reader.partitions(before, before),
    ):
        with pytest.raises(InvalidConfiguration) as caught:
            planned()
        assert str(caught.value) == (
            "the offset of 'orders' is 10, without the birth number of the queue; remove the"
            " checkpoint of the query and start it again"
        )


def test_a_position_in_an_earlier_queue_says_nothing_of_the_new_one():
    offsets = {"m": {"a": at(8, 3)}}

    assert position_in(offsets, QueueBirth("m", "a", 9)) == 0
    assert list(spans(offsets, {"m": {"a": at(9, 2)}})) == [QueueSpan("m", "a", 9, 0, 2)]
    assert went_back(offsets, {"m": {"a": at(9, 2)}}) == []
    with pytest.raises(QueueRecreated, match=r"queue 'a' of manager m was deleted") as caught:
        check_birth(QueueBirth("m", "a", 9), 8)
    assert (caught.value.queue, caught.value.born, caught.value.expected) == ("a", 9, 8)


def test_spans_are_what_lies_between_two_offsets():
    start = {"m": {"a": at(8, 3), "b": at(8, 5)}}
    end = {"m": {"a": at(8, 9), "b": at(8, 5), "c": at(8, 2)}}

    assert list(spans(start, end)) == [QueueSpan("m", "a", 8, 3, 9), QueueSpan("m", "c", 8, 0, 2)]


def test_offsets_that_go_back_are_noticed():
    start = {"m": {"a": at(8, 3)}}

    assert went_back(start, {"m": {"a": at(8, 4)}}) == []
    assert went_back(start, {"m": {"a": at(8, 2)}}) == ["queue 'a' of manager m from 3 to 2"]
    assert went_back(start, {"m": {}}) == ["queue 'a' of manager m from 3 to 0"]


def test_queues_that_are_gone_are_named():
    start = {"m": {"a": at(8, 3), "b": at(8, 1)}}

    assert lost(start, {("m", "a")}) == ["queue 'b' of manager m"]


def test_the_command_has_the_same_size_of_a_batch_as_the_call():
    (batch,) = (each for each in land_command.params if each.name == "batch")
    assert f"[default: {BYTES_PER_BATCH}]" in batch.help
