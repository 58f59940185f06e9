"""Options that users of Spark's source for Kafka look for: ends, times, limits, loss, filters."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import trustme
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMinRows

import dray
from dray.errors import (
    ConnectionLost,
    InvalidConfiguration,
    QueueNotFound,
    QueueRecreated,
    StoreError,
)
from dray.spark.managers import read_credentials
from dray.spark.source.batch import BatchReader, FilteringReader
from dray.spark.source.catalogue import Catalogue
from dray.spark.source.filters import EVERYTHING
from dray.spark.source.offsets import QueueSpan, check_offsets
from dray.spark.source.options import read_options
from dray.spark.source.ranges import measure
from dray.spark.source.reader import StreamReader
from tests.spark.test_source import without_receipts

in_spark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def url():
    """An address that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"dray://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def manager(url, tmp_path):
    """A queue manager in this process, which starts sooner than a daemon."""
    with dray.open(tmp_path / "manager", listen=url.removeprefix("dray://"), open=True) as opened:
        yield opened


@pytest.fixture
def orders(manager):
    """A queue with ten messages, each a transaction of its own."""
    queue = manager.create_queue("orders", journal=True)
    for number in range(10):
        queue.send(b"x", label=f"{number}")
    return queue


@pytest.fixture
def options(url):
    """Options of a query over "orders", or of whatever is given."""

    def make(**given):
        least = {"url": url, "queue": "orders", "minPartitions": "1"}
        return read_options(least | given)

    return make


@pytest.fixture
def stream(options):
    """Make the planner of a stream."""
    made = []

    def plan(**given):
        made.append(StreamReader(options(**given)))
        return made[-1]

    yield plan
    for each in made:
        each.stop()


def next_of(reader, start):
    return without_receipts(reader.latestOffset(start, reader.getDefaultReadLimit()))


def labels(reader, *between):
    """The labels that a micro-batch, or a batch query, reads."""
    return [
        label
        for task in reader.partitions(*between)
        for batch in reader.read(task)
        for label in batch.column("label").to_pylist()
    ]


def offsets_of(manager, queue, lookup_id):
    offset = {"born": queue.info().born, "lookup_id": lookup_id}
    return json.dumps({manager.info().id: {"orders": offset}})


def numbers(start, stop):
    return [f"{number}" for number in range(start, stop)]


def test_a_batch_ends_at_its_ending_offsets(options, manager, orders):
    given = {
        "startingOffsets": offsets_of(manager, orders, 2),
        "endingOffsets": offsets_of(manager, orders, 7),
    }
    assert labels(BatchReader(options(**given))) == numbers(2, 7)
    assert labels(BatchReader(options(endingOffsets="latest"))) == numbers(0, 10)
    starting, ending = given.values()
    backwards = BatchReader(options(startingOffsets=ending, endingOffsets=starting))
    with pytest.raises(InvalidConfiguration, match="from 7 to 2; correct endingOffsets"):
        backwards.partitions()
    stranger = json.dumps({"f" * 32: {"orders": {"born": 1, "lookup_id": 1}}})
    elsewhere = BatchReader(options(endingOffsets=stranger))
    with pytest.raises(InvalidConfiguration, match="endingOffsets names the queue manager"):
        elsewhere.partitions()


def test_a_query_begins_and_ends_at_times_of_arrival(options, stream, manager, orders):
    arrived = [orders.peek_by_lookup_id(each).arrived_time for each in (6, 10)]
    at = f"{int(arrived[0] * 1000)}"
    as_text = datetime.fromtimestamp(arrived[0], UTC).isoformat()

    assert labels(BatchReader(options(startingTimestamp=as_text))) == numbers(5, 10)
    assert labels(BatchReader(options(endingTimestamp=as_text))) == numbers(0, 5)
    # Whole milliseconds are at most as late as the message.
    assert labels(BatchReader(options(startingTimestamp=at)))[-5:] == numbers(5, 10)
    late = f"{int(arrived[1] * 1000) + 100_000}"
    assert labels(BatchReader(options(startingTimestamp=late))) == []
    reader = stream(startingTimestamp=as_text)
    start = reader.initialOffset()
    assert start == json.loads(offsets_of(manager, orders, 5))
    assert labels(reader, start, next_of(reader, start)) == numbers(5, 10)


def test_times_are_found_in_a_queue_whose_positions_have_gaps(options, orders):
    arrived = orders.peek_by_lookup_id(8).arrived_time
    for gone in (1, 2, 3, 6, 9):
        orders.receive_by_lookup_id(gone)
    as_text = datetime.fromtimestamp(arrived, UTC).isoformat()
    assert labels(BatchReader(options(startingTimestamp=as_text))) == ["7", "9"]
    assert labels(BatchReader(options(endingTimestamp=as_text))) == ["3", "4", "6"]


def test_a_micro_batch_waits_for_its_least_number_of_rows(stream, manager, orders):
    reader = stream(minOffsetsPerTrigger="12", maxOffsetsPerTrigger="20")
    assert reader.getDefaultReadLimit() == ReadMinRows(12)
    assert next_of(reader, {}) == {}
    orders.send_many([b"x"] * 2)
    end = next_of(reader, {})
    assert end == json.loads(offsets_of(manager, orders, 12))
    orders.send(b"x")
    assert next_of(reader, end) == end
    # A query that reads everything once, or what is there, would wait for ever.
    assert reader.latestOffset(end, ReadAllAvailable()) != end
    reader.prepareForTriggerAvailableNow()
    assert next_of(reader, end) == json.loads(offsets_of(manager, orders, 13))


def test_a_micro_batch_waits_no_longer_than_its_greatest_delay(stream, manager, orders):
    reader = stream(minOffsetsPerTrigger="12", maxTriggerDelay="1ms")
    assert next_of(reader, {}) == json.loads(offsets_of(manager, orders, 10))


def test_a_landing_that_follows_commits_at_once_and_then_every_so_often(
    stream, manager, orders, monkeypatch
):
    monkeypatch.setattr("dray.spark.source.reader._LOOKS", 1e9)
    reader = stream(commitEvery="1h", maxOffsetsPerTrigger="20", maxBytesPerTrigger="1MiB")
    first = next_of(reader, {})
    assert first == json.loads(offsets_of(manager, orders, 10))
    orders.send_many([b"x"] * 9)
    assert next_of(reader, first) == first
    # Ten of twenty are enough, whenever the commit before was.
    orders.send(b"x")
    second = next_of(reader, first)
    assert second == json.loads(offsets_of(manager, orders, 20))
    orders.send(bytes(600_000))
    third = next_of(reader, second)
    assert third == json.loads(offsets_of(manager, orders, 21))
    # One that lands what is there, and ends, does not wait.
    orders.send(b"x")
    assert next_of(reader, third) == third
    reader.prepareForTriggerAvailableNow()
    assert next_of(reader, third) == json.loads(offsets_of(manager, orders, 22))


def test_what_waits_for_its_commit_is_not_measured_at_each_trigger(stream, orders, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "dray.spark.source.catalogue.measure",
        lambda *given, **named: asked.append(given) or measure(*given, **named),
    )
    reader = stream(commitEvery="1h", maxOffsetsPerTrigger="100")
    first = next_of(reader, {})
    orders.send(b"x")
    assert [next_of(reader, first) for _ in range(9)] == [first] * 9
    assert len(asked) == 1


def test_what_waits_for_its_commit_goes_when_the_time_is_over(stream, manager, orders):
    reader = stream(commitEvery="1ms")
    first = next_of(reader, {})
    orders.send(b"x")
    assert next_of(reader, first) == json.loads(offsets_of(manager, orders, 11))


@pytest.mark.parametrize("again", [False, True])
def test_a_queue_that_is_deleted_under_a_query_is_named(stream, manager, orders, again):
    reader = stream()
    first = next_of(reader, {})
    orders.send(b"x")
    second = next_of(reader, first)
    manager.delete_queue("orders")
    if again:
        manager.create_queue("orders")
    said = "was deleted and made again, or" if again else "'orders'"
    for call in (lambda: next_of(reader, second), lambda: reader.partitions(first, second)):
        with pytest.raises(QueueRecreated if again else QueueNotFound, match=said) as told:
            call()
        assert len(str(told.value).splitlines()) == 1


def test_a_query_that_may_lose_messages_waits_when_the_last_queue_of_its_pattern_goes(
    stream, manager, orders
):
    reader = stream(queue="ord*", failOnDataLoss="false", maxOffsetsPerTrigger="5")
    strict = stream(queue="ord*", maxOffsetsPerTrigger="5")
    first, told = next_of(reader, {}), next_of(strict, {})
    manager.delete_queue("orders")

    assert next_of(reader, first) == first
    assert reader.partitions({}, first) == []
    manager.create_queue("orders").send(b"x", label="later")
    second = next_of(reader, first)
    assert labels(reader, first, second) == ["later"]
    with pytest.raises(QueueRecreated):
        next_of(strict, told)


def test_a_queue_of_a_pattern_that_is_deleted_at_any_step_of_the_planner_is_left_out(
    stream, manager, orders
):
    options = {"queue": "ord*", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "5"}
    planner, reporter, beginner = (stream(**options) for _ in range(3))
    (first,) = map(
        json.loads, {json.dumps(next_of(each, {})) for each in (planner, reporter, beginner)}
    )
    manager.delete_queue("orders")

    assert planner.partitions({}, first) == []
    assert without_receipts(reporter.reportLatestOffset()) == first
    beginner.prepareForTriggerAvailableNow()
    assert next_of(beginner, first) == first


@pytest.fixture
def gone_before(manager, orders, monkeypatch):
    """Delete "orders", and perhaps make it again, just before a step of the planner."""
    manager.create_queue("ordinary").send(b"x", label="stays")

    def act(step, *, again=False):
        original, left = getattr(Catalogue, step), [orders.name]

        def late(*given, **named):
            while left:
                manager.delete_queue(left.pop())
                if again:
                    manager.create_queue("orders").send(b"x", label="new")
            return original(*given, **named)

        monkeypatch.setattr(Catalogue, step, late)

    return act


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (("reach", False), ["stays"]),
        (("reach", True), ["new", "stays"]),
        (("_pieces", False), ["stays"]),
    ],
)
def test_a_batch_goes_on_when_a_queue_of_its_pattern_changes_while_it_is_planned(
    options, gone_before, change, read
):
    step, again = change
    gone_before(step, again=again)
    reader = BatchReader(options(queue="ord*", failOnDataLoss="false"))
    assert sorted(labels(reader)) == read


def test_a_stream_begins_when_a_queue_of_its_pattern_is_deleted_while_it_looks(stream, gone_before):
    gone_before("reach")
    first = stream(queue="ord*", startingOffsets="latest").initialOffset()
    assert [list(each) for each in first.values()] == [["ordinary"]]


def test_a_batch_names_a_queue_that_is_deleted_while_it_is_planned(options, gone_before):
    gone_before("reach")
    with pytest.raises(QueueNotFound, match="'orders'") as told:
        BatchReader(options()).partitions()
    assert len(str(told.value).splitlines()) == 1


def test_the_latest_offset_is_reported_beside_that_of_the_micro_batch(stream, manager, orders):
    for reader in (stream(maxOffsetsPerTrigger="3"), stream()):
        next_of(reader, {})
        assert without_receipts(reader.reportLatestOffset()) == json.loads(
            offsets_of(manager, orders, 10)
        )


def test_a_message_that_somebody_settled_between_two_batches_is_told(stream, orders, caplog):
    strict = stream(maxOffsetsPerTrigger="2")
    first = next_of(strict, {})
    assert labels(strict, {}, first) == ["0", "1"]
    # The query itself settles what it has read.
    orders.settle(upto=2)
    assert next_of(strict, first) != first
    orders.receive_by_lookup_id(4)

    for reader in (strict, stream(maxOffsetsPerTrigger="2")):
        with pytest.raises(StoreError, match=r"at position 4 left queue 'orders'.*failOnDataLoss"):
            next_of(reader, first)
    lenient = stream(maxOffsetsPerTrigger="2", failOnDataLoss="false")
    second = next_of(lenient, first)
    assert labels(lenient, first, second) == ["2", "4"]
    assert caplog.text.count("a message at position 4 left queue 'orders'") == 1
    assert next_of(lenient, second) != second
    assert caplog.text.count("left queue 'orders'") == 1


def test_a_message_that_had_left_before_the_query_began_is_not_missed(stream, orders):
    orders.receive_by_lookup_id(7)
    reader = stream(maxOffsetsPerTrigger="2")
    first = next_of(reader, {})
    assert check_offsets(first) == first
    # Also by a planner that was started again.
    again = stream(maxOffsetsPerTrigger="2")
    second = next_of(again, first)
    assert labels(again, first, second) == ["2", "3"]
    orders.receive_by_lookup_id(8)
    with pytest.raises(StoreError, match="at position 8 left"):
        next_of(again, second)


def test_large_messages_that_the_query_settled_are_not_missed_and_others_are(manager, stream):
    manager.create_queue("files")
    files = dray.LargeMessageQueue(manager.queue("files"), fragment_size=10_000)
    for number in range(4):
        files.send(bytes(25_000), label=f"{number}")
    reader = stream(queue="files", content="large", maxOffsetsPerTrigger="1")
    first = next_of(reader, {})
    manager.queue("files", raw=True).settle(upto=5)
    second = next_of(reader, first)
    assert second != first
    # The first two are settled by now; the third is taken by somebody else.
    for _ in range(2):
        with files.receive():
            pass
    with pytest.raises(StoreError, match="at position 11 left queue 'files'"):
        next_of(reader, second)


def test_journals_and_dead_letters_are_read_by_name(options, manager, orders):
    for _ in range(3):
        orders.receive()
    orders.send(b"late", label="late", time_to_be_received=0.001, use_dead_letter_queue=True)
    manager.delete_queue("orders")
    manager.create_queue("other", journal=True)

    assert labels(BatchReader(options(queue="deadletter:")))[-1:] == ["late"]


def test_the_journal_of_a_queue_is_read_by_its_name(options, orders):
    for _ in range(3):
        orders.receive()
    assert labels(BatchReader(options(queue="journal:orders"))) == numbers(0, 3)
    assert labels(BatchReader(options(queue="journal:ord*"))) == numbers(0, 3)
    assert labels(BatchReader(options(queue="journal:"))) == []


def test_a_name_with_brackets_or_a_question_mark_is_no_pattern(options, manager):
    """`files[1]` was read as a pattern, and rows of the queue `files1` came."""
    for name in ("files1", "files[1]", "files?", "[odd] names"):
        manager.create_queue(name, exist_ok=True).send(b"x", label=name)
    for name in ("files[1]", "files?", "FILES[1]"):
        assert labels(BatchReader(options(queue=name))) == [name.lower()]
    assert labels(BatchReader(options(queue="[odd]*"))) == ["[odd] names"]
    assert labels(BatchReader(options(queue="Files*"))) == ["files1", "files[1]", "files?"]


def test_a_journal_that_is_not_there_is_told_from_a_queue_that_is_not_there(options, manager):
    manager.create_queue("parcels", exist_ok=True)
    with pytest.raises(
        dray.QueueNotFound, match=r"queue 'Parcels' at .* has no journal.*--journal"
    ):
        BatchReader(options(queue="journal:Parcels")).partitions()
    with pytest.raises(dray.QueueNotFound, match="there is no queue 'nowhere' at"):
        BatchReader(options(queue="journal:nowhere")).partitions()


@pytest.mark.parametrize("name", ["system$;deadxact", "system$;journal", "dray://127.0.0.1:1/x"])
def test_a_queue_that_spark_does_not_read_by_name_is_refused_with_the_names_that_it_takes(
    options, manager, name
):
    """Spark said "there is no queue 'system$;deadxact'; create it"."""
    manager.create_queue("orders", exist_ok=True)
    manager.queue("dray://127.0.0.1:1/x").send(b"x")
    with pytest.raises(dray.QueueNotFound, match="takes private queues, journal:NAME and deadlet"):
        BatchReader(options(queue=name)).partitions()


@pytest.mark.parametrize("url", ["dray://127.0.0.1:1", "dray+unix:///nowhere/dray.sock"])
def test_a_manager_that_never_answered_is_not_waited_for(url, monkeypatch):
    monkeypatch.setattr("dray.spark.managers.PATIENCE_S", float("inf"))
    given = read_options({"url": url, "queue": "orders"})
    for planned in (
        BatchReader(given).partitions,
        StreamReader(given._replace(starting="latest")).initialOffset,
        lambda: next_of(StreamReader(given), {}),
    ):
        with pytest.raises(ConnectionLost, match="is `dray serve` running there"):
            planned()


def test_a_manager_that_has_answered_is_waited_for(stream, manager, orders, tmp_path):
    reader = stream()
    (url,) = reader.options.urls
    first = next_of(reader, {})
    orders.send(b"x")
    manager.close()
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(next_of, reader, first)
        with dray.open(tmp_path / "manager", listen=url.removeprefix("dray://"), open=True):
            assert planned.result() != first


def test_credentials_are_read_from_a_file_beside_the_certificates(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    path = tmp_path / "credentials.toml"
    path.write_text('ca = "ca.pem"\n')

    assert read_credentials(str(path), "drays://x:1") == {"ca": str(tmp_path / "ca.pem")}
    assert read_credentials(str(path), "dray://x:1") == read_credentials(None, "drays://x:1") == {}
    path.write_text('password = "secret"\n')
    with pytest.raises(InvalidConfiguration, match="it can have ca, cert, key"):
        read_credentials(str(path), "drays://x:1")
    with pytest.raises(InvalidConfiguration, match="all executors need this TOML file"):
        read_credentials(str(tmp_path / "missing"), "drays://x:1")


def test_wrong_credentials_are_one_sentence_that_names_the_option(url, tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    for name, each in {"ca": authority, "other": other}.items():
        each.cert_pem.write_to_path(tmp_path / f"{name}.pem")
        own = each.issue_cert("program@example").private_key_and_cert_chain_pem
        own.write_to_path(tmp_path / f"{name}-own.pem")

    def planned(address, text):
        options = {"url": address, "queue": "orders"}
        if text:
            (tmp_path / "credentials.toml").write_text(text)
            options["credentials"] = str(tmp_path / "credentials.toml")
        return BatchReader(read_options(options)).partitions()

    served = {"tls_cert": tmp_path / "server.pem", "tls_client_ca": tmp_path / "ca.pem"}
    with dray.open(
        tmp_path / "tls", listen=url.removeprefix("dray://"), open=True, **served
    ) as opened:
        opened.create_queue("orders").send(b"x")
        address = url.replace("dray://127.0.0.1", "drays://localhost")
        right = 'ca = "ca.pem"\ncert = "ca-own.pem"\n'
        assert len(planned(address, right)) == 1
        for wrong in (
            "",
            'ca = "ca.pem"\n',
            right.replace('"ca.pem"', '"other.pem"'),
            right.replace("ca-own", "other-own"),
        ):
            named = "in .*credentials.toml$" if wrong else "with the option credentials$"
            with pytest.raises(
                ConnectionLost, match=f"TLS.*a Spark query names these files {named}"
            ):
                planned(address, wrong)


class TestFilters:
    SPAN = QueueSpan("m" * 32, "orders", 8, 0, 10)

    def within(self, *filters):
        wanted = EVERYTHING
        for each in filters:
            wanted = wanted.narrowed(each, "lookup_id")
        return [(span.after, span.upto) for span in wanted.within(self.SPAN)]

    def test_filters_on_queue_manager_and_position_narrow_what_is_read(self):
        assert self.within(EqualTo(("queue",), "orders")) == [(0, 10)]
        assert self.within(EqualTo(("queue",), "others")) == []
        assert self.within(In(("manager_id",), ("m" * 32, "n" * 32))) == [(0, 10)]
        assert self.within(In(("manager_id",), ("n" * 32,))) == []
        assert self.within(GreaterThan(("lookup_id",), 3)) == [(3, 10)]
        assert self.within(GreaterThan(("lookup_id",), 3), LessThanOrEqual(("lookup_id",), 5)) == [
            (3, 5)
        ]
        assert self.within(In(("lookup_id",), (9, 4, 3, 99))) == [(2, 4), (8, 9)]

    @pytest.mark.parametrize(
        "given",
        [
            EqualTo(("label",), "x"),
            IsNull(("queue",)),
            EqualTo(("lookup_id",), "3"),
            In(("lookup_id",), (3, None)),
            In(("lookup_id",), tuple(range(1, 5_000, 2))),
        ],
    )
    def test_other_filters_are_left_to_spark(self, options, given):
        assert EVERYTHING.narrowed(given, "lookup_id") is None
        reader = FilteringReader(options())
        assert list(reader.pushFilters([given])) == [given]


class TestInSpark:
    pytestmark = in_spark

    @pytest.mark.usefixtures("orders")
    @pytest.mark.parametrize("enabled", ["true", "false"])
    def test_filters_read_less_and_give_the_same_rows(self, spark, url, enabled):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
        try:
            reader = spark.read.format("dray").option("url", url).option("queue", "*")
            rows = reader.load().where("queue = 'orders' and lookup_id > 3 and label <> '5'")
            assert sorted(row.label for row in rows.collect()) == ["3", "4", "6", "7", "8", "9"]
            plan = rows._jdf.queryExecution().executedPlan().toString()
            assert ("> 3)" in plan) is (enabled == "false")
            assert reader.load().count() == 10
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    @pytest.mark.usefixtures("orders")
    def test_the_progress_of_a_query_has_the_latest_offset_and_too_few_rows_end_it(
        self, spark, url, tmp_path
    ):
        reader = spark.readStream.format("dray").option("url", url)
        rows = reader.option("queue", "orders").option("maxOffsetsPerTrigger", "6")
        query = (
            rows.option("minOffsetsPerTrigger", "6")
            .load()
            .writeStream.foreachBatch(lambda batch, _: batch.count())
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)
        sources = [each.sources[0] for each in query.recentProgress if each.numInputRows]
        assert [each.numInputRows for each in sources] == [6, 4]
        for each in sources:
            (queues,) = json.loads(each.latestOffset).values()
            assert queues["orders"]["lookup_id"] == 10
